#!/usr/bin/env bash
# A repository made, packed with threads, cloned and searched.
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main one
cd one || exit
git config user.name Tester && git config user.email tester@example.org && git config pack.threads 2
for turn in 1 2 3 4 5; do
  for i in $(seq 60); do seq "$turn" $((i * 200)) > "file$i"; done
  git add . && git commit -q -m "turn $turn"
done
git rev-parse HEAD
git repack -q -a -d -f --depth 10 && git fsck --no-progress --full 2>&1
git log --stat --format=%H | sha256sum
cd .. || exit
git clone -q one two && git -C two grep -c 4711 | tail -n 1
git -C two diff --stat HEAD~3 HEAD | tail -n 1
