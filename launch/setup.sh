# shellcheck shell=bash
# Sourced by the scripts of this folder: a Python, a virtual environment, pip.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '==> %s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
  exit 1
}

# Whether $1 runs and is Python 3.11 or newer: a command may exist and not run.
is_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Whether $1 can make a virtual environment with pip in it.
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Prints the interpreter to use: $ARL_PYTHON, or the first that is fit.
find_python() {
  local lacking='' name
  if [[ -n ${ARL_PYTHON:-} ]]; then
    is_python "$ARL_PYTHON" ||
      fail "ARL_PYTHON=$ARL_PYTHON does not run or is not Python 3.11 or newer;" \
        'set it to one that is, or unset it.'
    has_venv "$ARL_PYTHON" || fail_without_venv "$ARL_PYTHON"
    printf '%s\n' "$ARL_PYTHON"
    return
  fi
  for name in python3.12 python3.11 python3.13 python3.14 python3 python; do
    if is_python "$name"; then
      if has_venv "$name"; then
        printf '%s\n' "$name"
        return
      fi
      lacking=${lacking:-$name}
    fi
  done
  [[ -z $lacking ]] || fail_without_venv "$lacking"
  fail 'found no Python 3.11 or newer on PATH; install one, or set ARL_PYTHON' \
    'to its path.'
}

fail_without_venv() {
  local version
  version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  fail "$1 cannot make virtual environments, since it lacks the modules venv" \
    "and ensurepip; install them (on Debian and Ubuntu: apt install" \
    "python$version-venv), or set ARL_PYTHON to another Python."
}

# Makes the virtual environment $1, or takes the one that is there.
make_venv() {
  local found
  if [[ -e $1 && -n $(ls -A -- "$1") ]]; then
    if ! is_python "$1/bin/python" || ! "$1/bin/python" -m pip --version >/dev/null
    then
      fail "$1 is no working virtual environment of Python 3.11 or newer with" \
        'pip; remove it, or set ARL_VENV to another folder.'
    fi
    say "virtual environment $1, made before"
    return
  fi
  found=$(find_python)
  say "virtual environment $1, with $("$found" --version) ($found)"
  "$found" -m venv "$1"
}

# Installs this project with the extras $2 ('' or '[test]') into environment $1,
# unless that has been done since the requirements last changed.
install() {
  local stamp="$1/arl-installed" wanted
  wanted="$root $2 $(cat -- "$root/setup.cfg" "$root/pyproject.toml" | cksum)"
  if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
    say "packages installed before"
    return
  fi
  say "pip install -e .$2 (the first time it downloads about 400 MB)"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-compile -e "$root$2"  # compiling all of it takes longer than importing
  printf '%s\n' "$wanted" >"$stamp"
}

# set_up FOLDER EXTRAS: afterwards `python` is that of the environment.
set_up() {
  local venv=${ARL_VENV:-$root/$1} began=$SECONDS
  make_venv "$venv"
  install "$venv" "$2"
  venv=$(cd -- "$venv" && pwd -P)
  export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH
  unset PYTHONHOME
  say "set up in $((SECONDS - began)) s"
}
