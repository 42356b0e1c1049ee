# gcc, g++ and clang -O2 on large generated files: the object code must be the same to the byte.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need gcc
awk 'BEGIN {
    print "#include <stdint.h>\n#include <string.h>\n";
    for (i = 0; i < 160; i++) {
        printf "struct s%d { int a[%d]; double d; char text[%d]; };\n", i, i % 7 + 1, i % 31 + 1;
        printf "uint64_t f%d(struct s%d *s, uint64_t x) {\n", i, i;
        printf "  for (unsigned i = 0; i < %d; i++) { s->a[i %% %d] += (int)(x >> i); x = x * %d + s->a[0]; }\n", i % 60 + 3, i % 7 + 1, i * 2 + 3;
        printf "  switch (x %% %d) {", i % 9 + 2;
        for (j = 0; j < i % 9 + 2; j++) printf " case %d: s->d *= %d.5; break;", j, j;
        printf " }\n  memset(s->text, (int)x, sizeof s->text);\n  return x ^ (uint64_t)s->d%s;\n}\n", i ? " ^ f" (i - 1) "((struct s" (i - 1) " *)s, x + 1)" : "";
    }
}' > large.c
cat > large.cpp <<'SOURCE'
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Table { std::map<std::string, std::vector<std::variant<int, std::string, std::unique_ptr<int>>>> entries;
    int sum() const { int s = N; for (auto &[k, v] : entries) for (auto &e : v) if (auto *i = std::get_if<int>(&e)) s += *i + k.size(); return s; } };
template <int N> int all() { Table<N> t; t.entries["x"].emplace_back(N); std::function<int(int)> f = [&](int x) { return x + t.sum(); };
    if constexpr (N > 0) return f(N) + all<N - 1>(); else return f(0); }
bool matches(const std::string &s) { static const std::regex r("(a|b)*c+[0-9]{2,4}"); return std::regex_match(s, r); }
int total(std::vector<std::string> v) { std::unordered_map<std::string, int> c; for (auto &s : v) c[s]++; std::sort(v.begin(), v.end());
    return all<15>() + c.size() + matches(v.front()); }
SOURCE
gcc -O2 -c large.c -o gcc.o
cksum gcc.o
gcc -O1 -g -S large.c -o - | cksum
if command -v g++ >/dev/null; then g++ -std=c++17 -O2 -frandom-seed=1 -c large.cpp -o gxx.o; cksum gxx.o; fi
if command -v clang >/dev/null; then clang -w -O2 -c large.c -o clang.o; cksum clang.o; fi
if command -v ld >/dev/null; then ld -r gcc.o gcc.o -o both.o 2>&1 | head -3; fi
