# bash under load: strings, arrays, associative arrays, functions, subshells, pipes, here-documents, regular expressions.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need bash
bash -eu <<'SCRIPT'
declare -A count
text=
for i in {1..20000}; do
    word="word$((i * 7919 % 977))"
    count[$word]=$((${count[$word]:-0} + 1))
    (( i % 50 )) || text+="$word "
done
for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort | head -50
echo "${#text} ${text//word/W}"

declare -a numbers
for i in {1..20000}; do numbers+=($((i * i % 1009))); done
echo "${numbers[*]:100:50} ${#numbers[@]}"
numbers=("${numbers[@]/#/x}")
echo "${numbers[@]: -20}"

fibonacci() { (( $1 < 2 )) && { echo "$1"; return; }; echo $(( $(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2))) )); }
fibonacci 11

for i in {1..150}; do
    [[ "line $i of text" =~ ([0-9]+)\ of ]] && echo "${BASH_REMATCH[1]}" | tr 0-9 a-j
    while read -r a b; do echo "$b$a"; done <<< "$i $text" | cksum
done
seq 1 30000 | while read -r n; do (( n % 3000 )) || echo "$n"; done
SCRIPT
