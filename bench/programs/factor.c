// Factors a number by continued fractions (Morrison and Brillhart 1975), with every number an object of its own: the job of cfrac in the
// 2006 paper, and how programs on libraries for big numbers behave. Nearly all objects have 16 or 32 bytes and die young.
//
//   factor NUMBER PRIMES      the product of two primes; how many primes the base has
//
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

enum { PRIMES_MOST = 512, RELATIONS_MOST = PRIMES_MOST + 16, LIMBS_MOST = 40 };

// Never 0 limbs above the highest that counts; zero has none.
struct number {
    uint32_t count;
    uint32_t limb[];
};

static struct number *number_new(uint32_t count) {
    struct number *const number = malloc(sizeof *number + count * sizeof number->limb[0]);
    if (number == NULL) errx(2, "no memory");
    number->count = count;
    memset(number->limb, 0, count * sizeof number->limb[0]);
    return number;
}

static struct number *trimmed(struct number *number) {
    while (number->count > 0 && number->limb[number->count - 1] == 0) number->count--;
    return number;
}

static struct number *number_of(uint32_t word) {
    struct number *const number = number_new(1);
    number->limb[0] = word;
    return trimmed(number);
}

// Puts `new` in the place of `*number`, which dies.
static void replace(struct number **number, struct number *new) {
    free(*number);
    *number = new;
}

static int compare(const struct number *a, const struct number *b) {
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (uint32_t i = a->count; i-- > 0;) {
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

static struct number *add(const struct number *a, const struct number *b) {
    const uint32_t most = a->count > b->count ? a->count : b->count;
    struct number *const sum = number_new(most + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i <= most; i++, carry >>= 32) {
        carry += (i < a->count ? a->limb[i] : 0) + (uint64_t)(i < b->count ? b->limb[i] : 0);
        sum->limb[i] = (uint32_t)carry;
    }
    return trimmed(sum);
}

// a is not less than b.
static struct number *subtract(const struct number *a, const struct number *b) {
    struct number *const difference = number_new(a->count);
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->count; i++, borrow >>= 32) {
        borrow += (int64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0);
        difference->limb[i] = (uint32_t)borrow;
    }
    return trimmed(difference);
}

static struct number *multiply(const struct number *a, const struct number *b) {
    struct number *const product = number_new(a->count + b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->count; j++, carry >>= 32) {
            carry += product->limb[i + j] + (uint64_t)a->limb[i] * b->limb[j];
            product->limb[i + j] = (uint32_t)carry;
        }
        product->limb[i + b->count] = (uint32_t)carry;
    }
    return trimmed(product);
}

static struct number *divide_word(const struct number *a, uint32_t divisor, uint32_t *rest) {
    struct number *const quotient = number_new(a->count);
    uint64_t remainder = 0;
    for (uint32_t i = a->count; i-- > 0;) {
        remainder = remainder << 32 | a->limb[i];
        quotient->limb[i] = (uint32_t)(remainder / divisor);
        remainder %= divisor;
    }
    *rest = (uint32_t)remainder;
    return trimmed(quotient);
}

// Takes divisor * factor, shifted by `at` limbs, from `rest`; returns how many times it was too much.
static uint32_t take_away(uint32_t *rest, const uint32_t *divisor, uint32_t count, uint64_t factor) {
    uint64_t carry = 0;
    int64_t borrow = 0;
    for (uint32_t i = 0; i < count; i++, carry >>= 32, borrow >>= 32) {
        carry += factor * divisor[i];
        borrow += (int64_t)rest[i] - (int64_t)(uint32_t)carry;
        rest[i] = (uint32_t)borrow;
    }
    borrow += (int64_t)rest[count] - (int64_t)carry;
    rest[count] = (uint32_t)borrow;
    uint32_t times = 0;
    for (; borrow < 0; times++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++, sum >>= 32) rest[i] = (uint32_t)(sum += (uint64_t)rest[i] + divisor[i]);
        sum += rest[count];
        rest[count] = (uint32_t)sum;
        if (sum >> 32) borrow = 0;
    }
    return times;
}

static void shift_left(uint32_t *to, const struct number *from, int bits) {
    uint64_t carry = 0;
    for (uint32_t i = 0; i < from->count; i++, carry >>= 32) to[i] = (uint32_t)(carry |= (uint64_t)from->limb[i] << bits);
    to[from->count] = (uint32_t)carry;
}

// Long division by the leading limbs; the quotient is returned, the remainder in *rest when rest is no NULL.
static struct number *divide(const struct number *a, const struct number *b, struct number **rest) {
    if (compare(a, b) < 0 || b->count == 1) {
        uint32_t word = 0;
        struct number *const quotient = compare(a, b) < 0 ? number_new(0) : divide_word(a, b->limb[0], &word);
        if (rest != NULL) *rest = compare(a, b) < 0 ? add(a, quotient) : number_of(word);
        return quotient;
    }
    const int bits = __builtin_clz(b->limb[b->count - 1]);
    uint32_t remainder[2 * LIMBS_MOST] = {0}, divisor[LIMBS_MOST] = {0};
    if (a->count >= LIMBS_MOST || b->count >= LIMBS_MOST) errx(2, "a number is too large");
    shift_left(remainder, a, bits);
    shift_left(divisor, b, bits);
    struct number *const quotient = number_new(a->count - b->count + 1);
    for (uint32_t i = quotient->count; i-- > 0;) {
        const uint64_t high = (uint64_t)remainder[i + b->count] << 32 | remainder[i + b->count - 1];
        uint64_t factor = high / divisor[b->count - 1];
        if (factor > UINT32_MAX) factor = UINT32_MAX;
        quotient->limb[i] = (uint32_t)factor - take_away(remainder + i, divisor, b->count, factor);
    }
    if (rest != NULL) {
        *rest = number_new(b->count);
        for (uint32_t i = 0; i < b->count; i++) (*rest)->limb[i] = (uint32_t)(((uint64_t)remainder[i + 1] << 32 | remainder[i]) >> bits);
        trimmed(*rest);
    }
    return trimmed(quotient);
}

static struct number *modulo(const struct number *a, const struct number *b) {
    struct number *rest;
    free(divide(a, b, &rest));
    return rest;
}

static struct number *multiply_modulo(const struct number *a, const struct number *b, const struct number *m) {
    struct number *product = multiply(a, b);
    replace(&product, modulo(product, m));
    return product;
}

// Newton's iteration from above.
static struct number *square_root(const struct number *a) {
    struct number *root = number_new(a->count / 2 + 1);
    root->limb[root->count - 1] = UINT32_MAX;
    for (;;) {
        struct number *next = divide(a, root, NULL);
        uint32_t rest;
        replace(&next, add(next, root));
        replace(&next, divide_word(next, 2, &rest));
        if (compare(next, root) >= 0) {
            free(next);
            return root;
        }
        replace(&root, next);
    }
}

static struct number *greatest_common_divisor(const struct number *a, const struct number *b) {
    struct number *zero = number_new(0), *x = add(a, zero), *y = add(b, zero);
    while (y->count > 0) {
        struct number *const rest = modulo(x, y);
        replace(&x, y);
        y = rest;
    }
    free(zero);
    free(y);
    return x;
}

static struct number *parse(const char *text) {
    struct number *value = number_new(0), *const ten = number_of(10);
    for (; *text != 0; text++) {
        struct number *const digit = number_of((uint32_t)(*text - '0'));
        replace(&value, multiply(value, ten));
        replace(&value, add(value, digit));
        free(digit);
    }
    free(ten);
    return value;
}

static void print(const struct number *number) {
    char text[LIMBS_MOST * 10 + 1], *end = text + sizeof text - 1;
    struct number *zero = number_new(0), *left = add(number, zero);
    *end = 0;
    while (left->count > 0) {
        uint32_t digit;
        replace(&left, divide_word(left, 10, &digit));
        *--end = (char)('0' + digit);
    }
    puts(end);
    free(left);
    free(zero);
}

// --- the factor base and the relations ---

static uint32_t primes[PRIMES_MOST], primes_count;

struct relation {
    struct number *root;               // root² ≡ ±product of the primes to their exponents
    uint16_t exponents[PRIMES_MOST + 1]; // that of -1 first
    uint64_t odd[PRIMES_MOST / 64 + 1], of[RELATIONS_MOST / 64 + 1];
};
static struct relation relations[RELATIONS_MOST];
static uint32_t relations_count;

static uint32_t power_modulo(uint64_t base, uint32_t exponent, uint32_t m) {
    uint64_t power = 1;
    for (base %= m; exponent > 0; exponent >>= 1, base = base * base % m) {
        if (exponent & 1) power = power * base % m;
    }
    return (uint32_t)power;
}

static int is_prime(uint32_t candidate) {
    for (uint32_t i = 2; i * i <= candidate; i++) {
        if (candidate % i == 0) return 0;
    }
    return 1;
}

// Two, and the odd primes of which the number is a square.
static void find_primes(const struct number *n, uint32_t wanted) {
    primes[primes_count++] = 2;
    for (uint32_t candidate = 3; primes_count < wanted; candidate += 2) {
        uint32_t rest;
        if (!is_prime(candidate)) continue;
        free(divide_word(n, candidate, &rest));
        if (rest == 0 || power_modulo(rest, (candidate - 1) / 2, candidate) == 1) primes[primes_count++] = candidate;
    }
}

// Whether `q` is a product of the base's primes; if so, it becomes a relation.
static int is_smooth(const struct number *q, struct relation *relation) {
    struct number *zero = number_new(0), *left = add(q, zero);
    free(zero);
    for (uint32_t i = 0; i < primes_count && !(left->count == 1 && left->limb[0] == 1); i++) {
        for (;;) {
            uint32_t rest;
            struct number *const quotient = divide_word(left, primes[i], &rest);
            if (rest != 0) {
                free(quotient);
                break;
            }
            replace(&left, quotient);
            relation->exponents[i + 1]++;
        }
    }
    const int smooth = left->count == 1 && left->limb[0] == 1;
    free(left);
    return smooth;
}

static void keep_relation(struct relation *relation, const struct number *root, int negative) {
    struct number *const zero = number_new(0);
    relation->exponents[0] = (uint16_t)negative;
    relation->root = add(root, zero);
    for (uint32_t i = 0; i <= primes_count; i++) relation->odd[i / 64] |= (uint64_t)(relation->exponents[i] & 1) << i % 64;
    relation->of[relations_count / 64] |= UINT64_C(1) << relations_count % 64;
    relations_count++;
    free(zero);
}

// The expansion of √n: the i-th root's square is (-1)^i q modulo n, and q stays below 2√n.
static void expand(const struct number *n) {
    struct number *const g = square_root(n);
    struct number *p = number_new(0), *q = number_of(1), *root = number_of(1), *last = number_of(0);
    for (int i = 0; relations_count < primes_count + 8; i++) {
        struct number *sum = add(g, p), *factor = divide(sum, q, NULL), *product = multiply(factor, q);
        struct number *next = i == 0 ? add(g, last) : multiply_modulo(factor, root, n);
        if (i > 0) {
            replace(&next, add(next, last));
            replace(&next, modulo(next, n));
        }
        replace(&last, root);
        root = next;
        replace(&p, subtract(product, p));
        replace(&sum, multiply(p, p));
        replace(&sum, subtract(n, sum));
        replace(&q, divide(sum, q, NULL));
        free(sum);
        free(product);
        free(factor);
        memset(&relations[relations_count], 0, sizeof relations[0]);
        if (is_smooth(q, &relations[relations_count])) keep_relation(&relations[relations_count], root, (i + 1) & 1);
    }
    free(g), free(p), free(q), free(root), free(last);
}

// The product of the roots and the root of the product, for the relations in `of`: a factor, or nothing that helps.
static int try_combination(const uint64_t *of, const struct number *n) {
    struct number *x = number_of(1), *y = number_of(1);
    uint32_t sums[PRIMES_MOST + 1] = {0};
    for (uint32_t i = 0; i < relations_count; i++) {
        if (!(of[i / 64] >> i % 64 & 1)) continue;
        replace(&x, multiply_modulo(x, relations[i].root, n));
        for (uint32_t j = 0; j <= primes_count; j++) sums[j] += relations[i].exponents[j];
    }
    for (uint32_t j = 0; j < primes_count; j++) {
        struct number *const prime = number_of(primes[j]);
        for (uint32_t k = 0; k < sums[j + 1] / 2; k++) replace(&y, multiply_modulo(y, prime, n));
        free(prime);
    }
    struct number *const difference = compare(x, y) >= 0 ? subtract(x, y) : subtract(y, x);
    struct number *const divisor = greatest_common_divisor(difference, n);
    const int found = compare(divisor, n) < 0 && !(divisor->count == 1 && divisor->limb[0] == 1);
    if (found) print(divisor);
    free(x), free(y), free(difference), free(divisor);
    return found;
}

// Adds rows until one has no odd exponent left (Gaussian elimination modulo 2).
static int combine(const struct number *n) {
    enum { WORDS = PRIMES_MOST / 64 + 1, OF_WORDS = RELATIONS_MOST / 64 + 1 };
    static int used[RELATIONS_MOST];
    for (uint32_t column = 0; column <= primes_count; column++) {
        uint32_t pivot = 0;
        while (pivot < relations_count && (used[pivot] || !(relations[pivot].odd[column / 64] >> column % 64 & 1))) pivot++;
        if (pivot == relations_count) continue;
        used[pivot] = 1;
        for (uint32_t i = 0; i < relations_count; i++) {
            if (i == pivot || used[i] || !(relations[i].odd[column / 64] >> column % 64 & 1)) continue;
            for (int word = 0; word < WORDS; word++) relations[i].odd[word] ^= relations[pivot].odd[word];
            for (int word = 0; word < OF_WORDS; word++) relations[i].of[word] ^= relations[pivot].of[word];
        }
    }
    for (uint32_t i = 0; i < relations_count; i++) {
        if (!used[i] && try_combination(relations[i].of, n)) return 1;
    }
    return 0;
}

int main(int count, char **words) {
    struct number *const n = parse(count > 1 ? words[1] : "47582602774358115722167492755475367767");
    const long wanted = program_number(words, count, 2, 300);
    if (wanted < 1 || wanted > PRIMES_MOST || n->count > 8) errx(2, "usage: factor NUMBER PRIMES; at most %d primes", PRIMES_MOST);
    find_primes(n, (uint32_t)wanted);
    expand(n);
    const int found = combine(n);
    for (uint32_t i = 0; i < relations_count; i++) free(relations[i].root);
    free(n);
    return found ? 0 : 1;
}
