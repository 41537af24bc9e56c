"""What is asked of git about a child's copy of its parent's repository, as shell scripts. Part of the composition root, pure.

They run in the parent's environment and nowhere else, so whatever a filter of the repository starts stays behind the same walls as
a command of the parent's. No hook runs. The index that git works with is a temporary one: that of the parent is only read.

    FOLDER/KEY          the copy, a repository that borrows the objects of the parent's
    FOLDER/KEY.index    what git knew of its files when it was made
    FOLDER/KEY.tmp      gone when a script ends
    refs/melete/KEY     the commit that it was made from, for as long as it stands
    refs/heads/BRANCH   what the child left; its first parent is that commit
"""

from typing import Final

FOLDER: Final = ".melete-children"
"""Where copies stand, below the top of the repository; the folder's own `.gitignore` keeps it from being seen."""
NO_GIT, NO_REPOSITORY, NO_COMMIT, TAKEN, LED_ASTRAY = 3, 4, 5, 6, 7
"""How `FIND` and `MAKE` end where there can be no copy."""

_START = """
set -eu
LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_PAGER=cat
GIT_AUTHOR_NAME=melete GIT_AUTHOR_EMAIL=- GIT_COMMITTER_NAME=melete GIT_COMMITTER_EMAIL=-
export LC_ALL GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_PAGER
export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES || :
g() {
  git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.untrackedCache=false -c core.safecrlf=false -c gc.auto=0 \
    -c maintenance.auto=false -c core.packedRefsTimeout=10000 -c core.filesRefLockTimeout=10000 -c submodule.recurse=false "$@"
}
"""
_WORK = f"""
top=$1 key=$2
shift 2
cd "$top"
home=$top/{FOLDER} copy=$top/{FOLDER}/$key t=$top/{FOLDER}/$key.tmp
[ ! -L "$home" ] || exit {LED_ASTRAY}
tidy() {{
  rm -rf "$t"
  [ "$(ls -A "$home")" = .gitignore ] || return 0
  rm -f "$home/.gitignore"
  rmdir "$home" || printf '*\\n' > "$home/.gitignore"
}}
rm -rf "$t"
mkdir -p "$t"
printf '*\\n' > "$home/.gitignore"
trap 'c=$?; [ $c = 0 ] || cat "$t/err"; tidy 2> /dev/null; exit $c' EXIT
exec 2> "$t/err"
"""

FIND: Final = f"""{_START}
command -v git > /dev/null || exit {NO_GIT}
top=$(g rev-parse --show-toplevel) || exit {NO_REPOSITORY}
g rev-parse -q --verify 'HEAD^{{commit}}' > /dev/null || exit {NO_COMMIT}
printf '%s\\n' "$top" "$(g rev-parse --show-prefix)"
"""
"""Prints the top of the repository round the working folder, and the way from there to here."""

MAKE: Final = f"""{_START}{_WORK}
branch=$1
! g show-ref -q --verify refs/heads/melete || exit {TAKEN}
find "$home" -mindepth 1 -maxdepth 1 -name '*.tmp' -mmin +60 -exec rm -rf {{}} +
g for-each-ref --format='%(refname:lstrip=2)' refs/melete | while read -r one; do
  [ -e "$home/$one" ] || [ -e "$home/$one.tmp" ] || g update-ref -d "refs/melete/$one" || :
done
if [ -d "$copy" ]; then echo found; exit; fi
if [ -n "$branch" ] && tip=$(g rev-parse -q --verify "refs/heads/$branch^{{commit}}"); then
  base=$(g rev-parse "$tip^1")
else
  index=$(g rev-parse --git-path index)
  [ ! -f "$index" ] || cp -p "$index" "$t/index"
  tree=$(
    export GIT_INDEX_FILE="$t/index"
    g add -A --ignore-errors || :
    g write-tree
  )
  tip=$(g rev-parse HEAD)
  GIT_COMMITTER_DATE="$(g show -s --format=%ct HEAD) +0000"  # so siblings that find the same begin from the same commit
  export GIT_COMMITTER_DATE GIT_AUTHOR_DATE="$GIT_COMMITTER_DATE"
  [ "$(g rev-parse 'HEAD^{{tree}}')" = "$tree" ] || tip=$(g commit-tree -p HEAD -m 'What was there when a child began' "$tree")
  base=$tip
fi
g update-ref "refs/melete/$key" "$base"
g clone -q --shared --mirror --template= "$top" "$t/copy/.git"
own() {{ g --git-dir="$t/copy/.git" "$@"; }}
own config --remove-section remote.origin
own config core.bare false
own config gc.auto 0
for name in user.name user.email; do
  ! said=$(g config --local "$name") || own config "$name" "$said"
done
own update-ref HEAD "$tip"
real=$(g rev-parse --absolute-git-dir)
(
  cd "$t/copy"
  export GIT_DIR="$real" GIT_WORK_TREE="$t/copy" GIT_INDEX_FILE="$t/new"
  g read-tree --reset -u --no-recurse-submodules "$tip"
)
cp -p "$t/new" "$home/$key.index"
mv "$t/new" "$t/copy/.git/index"
mv "$t/copy" "$copy"
echo made
"""
"""Makes the copy KEY, from BRANCH or else from the parent's files as they are; prints whether it was `made` or `found`.

What git cannot read of the parent's files is not in it. References to copies that are gone are cleared.
"""

STORE: Final = f"""{_START}{_WORK}
branch=$1 title=$2
if [ ! -d "$copy" ]; then
  tip=$(g rev-parse -q --verify "refs/heads/$branch^{{commit}}") || {{ echo 'the copy is gone' >&2; exit 1; }}
  base=$(g rev-parse "$tip^1")
  printf '%s\\n' "$base" "$tip" "$(g rev-list --count "$base..$tip")"
  exit
fi
if g worktree list --porcelain | grep -qxF "branch refs/heads/$branch"; then
  echo "the branch $branch is checked out" >&2
  exit 1
fi
base=$(g rev-parse -q --verify "refs/melete/$key^{{commit}}" || g rev-parse -q --verify "refs/heads/$branch^1" || g rev-parse HEAD)
old=$(g rev-parse -q --verify "refs/heads/$branch^{{commit}}" || :)
real=$(g rev-parse --absolute-git-dir)
own() {{ g --git-dir="$copy/.git" "$@"; }}
head=$(own rev-parse -q --verify 'HEAD^{{commit}}' || echo "$base")
{{ own for-each-ref --format='%(objectname)' refs/heads refs/stash || :; }} |
  g cat-file --batch-check | sed -n 's/ missing$//p' > "$t/tips"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="\\"$copy/.git/objects\\""
(
  cd "$copy"
  export GIT_DIR="$real" GIT_WORK_TREE="$copy" GIT_INDEX_FILE="$t/index"
  [ ! -f "$home/$key.index" ] || cp -p "$home/$key.index" "$t/index"
  g read-tree -i -m "$head"
  g add -A --ignore-errors || echo > "$t/partly"
  g write-tree > "$t/tree"
)
tree=$(cat "$t/tree")
set -- -p "$base"
for one in $({{ echo "$head"; cat "$t/tips"; }} | awk '!seen[$0]++'); do
  g merge-base --is-ancestor "$one" "$base" || set -- "$@" -p "$one"
done
if [ $# = 4 ] && [ "$4" = "$old" ] && [ "$(g rev-parse "$old^{{tree}}")" = "$tree" ]; then
  tip=$old
elif [ $# = 2 ] && [ "$(g rev-parse "$base^{{tree}}")" = "$tree" ]; then
  tip=
else
  tip=$(g commit-tree -m "$title" "$@" "$tree")
  {{ printf '%s\\n^%s\\n' "$tip" "$base"; g for-each-ref --format='^%(objectname)' refs/heads; }} |
    g pack-objects -q --revs --stdout > "$t/pack"
  unset GIT_ALTERNATE_OBJECT_DIRECTORIES
  g index-pack --stdin < "$t/pack" > /dev/null
  g update-ref "refs/heads/$branch" "$tip"
fi
printf '%s\\n' "$base" "$tip"
[ -z "$tip" ] || g rev-list --count "$base..$tip"
[ ! -e "$t/partly" ] || sed 's/^/partly /' "$t/err"
[ -z "$tip" ] || g -c core.quotepath=false diff-tree -r --raw "$base" "$tip" | sed -n 's/^:[0-7]* 160000 [^\t]*\t/nested /p'
"""
"""Keeps what stands in the copy KEY on BRANCH, under a TITLE.

Prints the commit that it was made from, the one that was stored (nothing where nothing changed), how many commits that are, and
what no branch can hold: `partly` and git's complaint, `nested` and a repository of its own.
"""

COUNT: Final = f"""{_START}
cd "$1"
g diff-tree -r --numstat -z "$3" "$4"
"""
"""Prints the lines that each file has more and less in the second commit, as git's numstat does with -z."""

CHECK: Final = f"""{_START}{_WORK}
g diff-tree -r -p --binary --full-index "$1" "$2" > "$t/patch"
how=
if [ -n "$3" ]; then
  export GIT_INDEX_FILE="$t/index"
  g read-tree "$3"
  how=--cached
fi
g apply --check $how --whitespace=nowarn "$t/patch" 2> "$t/why" || cat "$t/why"
"""
"""Prints git's complaints where what differs between two commits does not apply: to the parent's files, or to a third commit."""

REMOVE: Final = f"""{_START}{_WORK}
rm -rf "$copy" || {{ chmod -R u+w "$copy"; rm -rf "$copy"; }}
rm -f "$home/$key.index"
g update-ref -d "refs/melete/$key"
"""
"""Removes the copy KEY and all that belongs to it, but for its branch."""
