# PHP with all extensions that are installed, which it opens with RTLD_DEEPBIND: strings, arrays, expressions, JSON, sorting, a collector's cycles.
# USE_ZEND_ALLOC=0 as well: every object of the program from malloc.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need php

cat > program.php <<'PHP'
<?php
class Node { public $next; public $name; function __construct($name) { $this->name = $name; } }
mt_srand(1);
$words = [];
for ($i = 0; $i < 60000; $i++) $words[] = md5((string)mt_rand());
$counts = [];
foreach ($words as $word) foreach (str_split($word, 3) as $part) $counts[$part] = ($counts[$part] ?? 0) + 1;
arsort($counts); ksort($counts);
echo count($counts), " ", md5(json_encode($counts)), "\n";
echo strlen(preg_replace('/([a-f])(\d+)/', '<$2:$1>', implode(" ", $words))), "\n";
for ($i = 0; $i < 50000; $i++) { $a = new Node("a$i"); $a->next = new Node(str_repeat("b", $i % 300)); $a->next->next = $a; }
echo gc_collect_cycles() >= 0 ? "collected\n" : "";
$back = json_decode(json_encode(array_map(fn($w) => ["w" => $w, "n" => strlen($w)], array_slice($words, 0, 20000))), true);
echo md5(serialize($back)), "\n";
echo count(get_loaded_extensions()), " extensions\n";
PHP
php program.php
USE_ZEND_ALLOC=0 php program.php
