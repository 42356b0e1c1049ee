# git: thousands of files, many commits, branches, merge, repack with threads, fsck, log -p, blame, archive.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need git
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main repository
cd repository
git config pack.threads 2
git config gc.auto 0
commit() {
    GIT_AUTHOR_DATE="$1 +0000" GIT_COMMITTER_DATE="$1 +0000" git commit -q -m "commit $1"
}
mkdir -p a/b c/d
awk 'BEGIN { for (i = 1; i <= 3000; i++) { f = sprintf("%s/file%d.txt", i % 2 ? "a/b" : "c/d", i);
    for (j = 0; j < 20 + i % 50; j++) print i, j, i * j % 997, "some text of line", j > f; close(f) } }'
git add .
commit 1700000000
for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
    awk -v r="$round" 'BEGIN { for (i = r; i <= 3000; i += 37) { f = sprintf("%s/file%d.txt", i % 2 ? "a/b" : "c/d", i);
        print "changed in round", r >> f; close(f) } }'
    git add -A
    commit "17000000$((round + 10))"
done
git checkout -q -b side HEAD~5
echo side > side.txt
git add side.txt
commit 1700001000
git checkout -q main
GIT_AUTHOR_DATE="1700001001 +0000" GIT_COMMITTER_DATE="1700001001 +0000" git merge -q --no-edit side
git repack -q -a -d -f --depth=20 --window=20
git fsck --full 2>&1
git log -p | cksum
git log --stat --oneline | tail -20
git blame a/b/file1.txt | tail -3
git archive HEAD | cksum
git rev-parse HEAD
git count-objects -v | grep -E 'count|in-pack'
