"""What a shell runs round a command so that its state lasts: taken over before, left behind after. Text for bash and for sh.

The state of command N is the file STATE.N; when it is whole, N is added to STATE.done in one write, so that a shell which is
killed leaves either all of its state or none. Files are only ever begun and added to: on many file systems, emptying one that
exists costs more than the command. STATE.N.cwd says where command N left the shell, empty for the working folder; STATE.env
holds the mask of new files and the names of the variables that every command of the environment begins with.

In bash these last: variables, exported or not (a readonly one comes back writable), functions, aliases, `shopt` options, `set`
options, the mask of new files and the folder. The options that decide when a script stops or what it prints (`set -e`, `-u`,
`-x`, `-v`, `-n`, `pipefail`) end with the command that set them. In sh: exported variables, the mask and the folder.
"""

from collections.abc import Mapping, Sequence
from functools import cache

COMMAND = "{COMMAND}"
"""Stands in a script where the command stands, as a word of the shell."""
EVERY, KEPT = 16, 16
"""After so many commands old files are removed, all but those of the last ones."""

_BASH_RESTORE = r"""
{
__melete_away={AWAY};
if [[ ! -e {STATE}.env ]]; then { builtin umask; builtin compgen -e; } >| {STATE}.env; fi;
builtin mapfile -t __melete_e < {STATE}.env;
{BEGIN}
builtin shopt -s expand_aliases;
__melete_o=$SHELLOPTS$BASHOPTS;
if builtin mapfile -t __melete_l < {STATE}.done; then
  for ((__melete_i = ${#__melete_l[@]} - 1; __melete_i >= 0; __melete_i--)); do
    case ' {VOID} ' in
      *" ${__melete_l[__melete_i]} "*) ;;
      *) __melete_b=${__melete_l[__melete_i]}; break ;;
    esac;
  done;
fi;
if [[ ${__melete_b-} ]] && builtin mapfile -t __melete_l < {STATE}.$__melete_b; then
  for __melete_i in "${!__melete_l[@]}"; do
    case ${__melete_l[__melete_i]} in
      'declare -r '*) __melete_l[__melete_i]="declare -- ${__melete_l[__melete_i]#* * }" ;;
      'declare -'[aAi]'r '*) __melete_l[__melete_i]=${__melete_l[__melete_i]/r / } ;;
      'declare -rx '*) __melete_l[__melete_i]="declare -x ${__melete_l[__melete_i]#* * }" ;;
      '# functions') break ;;
    esac;
  done;
  builtin printf -v __melete_t '%s\n' "${__melete_l[@]}";
  builtin unset -v __melete_l __melete_i;
  builtin eval "$__melete_t";
fi;
builtin unset -v __melete_t __melete_l __melete_i __melete_away;
} > /dev/null 2>&1;
"""

_BASH_BEGIN = r"""builtin umask 077; : >> {STATE}.{NUMBER}; builtin umask "${__melete_e[0]}";"""

_BASH_SAVE = r"""
__melete_save() {
builtin set -- "$SHELLOPTS" '' "$PWD" "$PWD" "${__melete_b-}";
builtin set +aCefuvx +o posix;
builtin trap - DEBUG ERR RETURN;
if [[ $1$BASHOPTS != "$__melete_o" ]]; then
  for __melete_v in allexport braceexpand hashall keyword noclobber noglob physical; do
    if [[ :$1: == *:$__melete_v:* ]]; then builtin set -- "$1" "$2 -o $__melete_v" "${@:3}";
    else builtin set -- "$1" "$2 +o $__melete_v" "${@:3}"; fi;
  done;
fi;
if [[ '{AWAY}' ]]; then
  builtin set -- "$1" "$2" {KEEP} {KEEP} "$5";
  if [[ ! $3 ]]; then builtin set -- "$1" "$2" {HOME} '' "$5"; fi;
elif [[ $PWD -ef {HOME} ]]; then builtin set -- "$1" "$2" "$3" '' "$5"; fi;
builtin unset -f __melete_save;
{
  builtin printf '[[ $__melete_away ]] || builtin cd -- %q\n' "$3";
  for __melete_v in "${__melete_e[@]:1}"; do
    [[ -v $__melete_v ]] || builtin printf 'builtin unset -v %s\n' "$__melete_v";
  done;
  builtin umask -p;
  if [[ $2 ]]; then builtin shopt -p; fi;
  builtin unset -v __melete_b __melete_c __melete_e __melete_o __melete_r __melete_v _ BASH_ALIASES BASH_CMDS
    BASH_EXECUTION_STRING BASH_REMATCH DIRSTACK OPTIND PWD RANDOM SECONDS SHLVL;
  builtin declare -p;
  builtin printf '# functions\n';
  builtin declare -f;
  builtin export -pf;
  if [[ $2 ]]; then builtin printf 'builtin set%s\n' "$2"; fi;
  builtin alias -p;
  builtin printf '# whole\n';
} >> {STATE}.{NUMBER} && builtin printf '{NUMBER}\n' >> {STATE}.done && builtin printf %s "$4" {LEFT};
__melete_s=1;
{CLEAN}
};
"""

_SH_RESTORE = r"""
{
__melete_b=;
{BEGIN}
if [ -r {STATE}.done ]; then
  while read -r __melete_l; do
    case ' {VOID} ' in
      *" $__melete_l "*) ;;
      *) __melete_b=$__melete_l ;;
    esac;
  done < {STATE}.done;
  if [ -n "$__melete_b" ] && [ -r {STATE}.$__melete_b ]; then . {STATE}.$__melete_b; fi;
fi;
unset __melete_l;
} > /dev/null 2>&1;
"""

_SH_BEGIN = r"""__melete_m=$(umask); umask 077; : >> {STATE}.{NUMBER}; umask "$__melete_m";"""

_SH_SAVE = r"""
__melete_save() {
__melete_s=1;
set +aCefuvx;
set -- "${__melete_b-}";
__melete_at=$PWD;
if [ -n '{AWAY}' ]; then __melete_at={KEEP}; elif [ "$PWD" -ef {HOME} ]; then __melete_at=; fi;
{
  printf 'umask %s\n' "$(umask)";
  export -p;
  printf '# whole\n';
} >> {STATE}.{NUMBER} && printf '{NUMBER}\n' >> {STATE}.done && printf %s "$__melete_at" {LEFT};
{CLEAN}
};
"""

_CLEAN = r"""
__melete_b=${5-$1};
set --;
for __melete_v in {OLD}; do
  [ "$__melete_v" = "$__melete_b" ] || set -- "$@" {STATE}.$__melete_v {STATE}.$__melete_v.cwd;
done;
command -p rm -f "$@" < /dev/null > /dev/null 2>&1 &
"""

_PLAIN = r"""
__melete_p=1;
for __melete_n in {NAMES}; do
  if builtin declare -F -- "$__melete_n" || [[ ${BASH_ALIASES[$__melete_n]+1} ]]; then __melete_p=; fi;
done > /dev/null 2>&1;
if [[ $__melete_p ]]; then builtin unset -v __melete_p __melete_n; eval "$__melete_c"; exit; fi;
builtin unset -v __melete_p __melete_n;
"""

_BASH_BEGIN_LATE = r"""
__melete_n=$(builtin umask); builtin umask 077; : >> {STATE}.{NUMBER}; builtin umask "$__melete_n"; unset -v __melete_n;
"""

_ROUND = r"""
__melete_c={COMMAND};
set --;
{FIRST}
{SAVE}
{RESTORE}
{THEN}
trap '{ [ -n "${__melete_s-}" ] || __melete_save; } 2> /dev/null' EXIT;
eval "$__melete_c";
{ set -- $?; __melete_save; } 2> /dev/null;
exit $1
"""


def restore(program: str, values: Mapping[str, str], *, saved: bool) -> str:
    """One line that gives the shell `program` the state; `saved` says that `script` goes round it."""
    text = _SH_RESTORE if program == "sh" else _BASH_RESTORE
    begin = _SH_BEGIN if program == "sh" else _BASH_BEGIN
    return _filled(text, {"BEGIN": _filled(begin, values) if saved else "", **values})


def script(
    program: str, values: Mapping[str, str], *, old: str, look: bool, names: Sequence[str] = (), fresh: bool = False
) -> str:
    """One line that restores, runs what stands at `COMMAND` and leaves the state: messages count the command's own lines.

    `look` says that STATE.N.cwd will be wanted, `old` has the numbers of states that are not needed any more. `names` are the
    programs of a command that leaves the state as it is unless one of them is a function or an alias: then nothing is left
    behind. `fresh` says that there is no state yet.
    """
    more = {
        "CLEAN": _filled(_CLEAN, {"OLD": old, **values}) if old else "",
        "LEFT": ">> " + _filled("{STATE}.{NUMBER}.cwd", values) if look else "> /dev/null",
    }
    save = _filled(_SH_SAVE if program == "sh" else _BASH_SAVE, {**more, **values})
    plain = _filled(_PLAIN, {"NAMES": " ".join(names)}) if names else ""
    late = bool(plain) and not fresh
    parts = {
        "{FIRST}": plain if fresh else "",
        "{THEN}": plain + _filled(_BASH_BEGIN_LATE, values) if late else "",
        "{RESTORE}": restore(program, values, saved=not late),
        "{SAVE}": save,
    }
    text = _flat(_ROUND)
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def _filled(text: str, values: Mapping[str, str]) -> str:
    text = _flat(text)
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


@cache
def _flat(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines())
