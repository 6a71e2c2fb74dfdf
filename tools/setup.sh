# Installs what the build needs and the machine lacks. Sourced by ./run and ./test:
#     . tools/setup.sh; need_packages build       a compiler, CMake and the libraries
#     . tools/setup.sh; need_packages build check  also what only ./test uses; sanitize: what ./test --sanitizers does
#     . tools/setup.sh; need_packages build arm64  also a cross compiler and qemu; need_sysroot: its libraries
# Nothing is installed, and no network is touched, when everything is there.

apt_build="g++ cmake ninja-build ccache pkg-config zlib1g-dev libfmt-dev libprotozero-dev \
nlohmann-json3-dev libsimdjson-dev libxxhash-dev libutf8proc-dev libpcre2-dev libhwy-dev libedit-dev \
libcurl4-openssl-dev doctest-dev"
apt_check="xz-utils clang libblocksruntime-dev"  # the last two: Core ML's backend against a double
apt_sanitize="clang libblocksruntime-dev"
apt_arm64="g++-aarch64-linux-gnu qemu-user-static"
# A python that can make a virtual environment may come from elsewhere.
python3 -c "import venv, ensurepip" 2>/dev/null || apt_check="$apt_check python3 python3-venv"

fail() {
  echo "error: $*" >&2
  exit 2
}

need_packages() {
  if [ "$(uname)" = Darwin ]; then
    need_homebrew
  elif command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    local wanted="" group
    for group in "$@"; do eval "wanted=\"\$wanted \$apt_$group\""; done
    # shellcheck disable=SC2086
    need_apt $wanted
  else
    echo "note: neither apt nor Homebrew is here; going on with what is installed" >&2
  fi
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  # shellcheck disable=SC2086
  set -- $version
  [ $# = 2 ] || fail "cmake is not installed"
  [ "$1" -gt 3 ] || [ "$2" -ge 25 ] || fail "cmake is $1.$2, at least 3.25 is needed: Debian 12, Ubuntu 24.04 or newer"
}

# A clang++ that can build the sanitizer tree: 16 or newer, with its run-time libraries.
find_clang() {
  local name out kinds=address,undefined,fuzzer least=16
  local source='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof(0))) { return 0; }'
  # Apple counts its versions otherwise, and leaves libFuzzer out.
  [ "$(uname)" != Darwin ] || kinds=address,undefined least=0 source='int main() {}'
  out=$(mktemp)
  for name in clang++-16 clang++-20 clang++-19 clang++-18 clang++-17 clang++; do
    command -v $name >/dev/null && [ "$($name -dumpversion | cut -d. -f1)" -ge $least ] || continue
    echo "$source" | $name -std=c++20 -fsanitize=$kinds -x c++ - -o "$out" 2>/dev/null || continue
    rm -f "$out"
    echo $name
    return
  done
  rm -f "$out"
  return 1
}

# What stands for "clang" in the lists above: nothing when one is there, else the first that the system has.
clang_packages() {
  local version
  for version in 16 20 19 18 17; do
    [ -z "$(apt-cache search --names-only "^libclang-rt-$version-dev\$")" ] || {
      echo "clang-$version libclang-rt-$version-dev"
      return
    }
  done
}

need_apt() {
  local missing="" package clang=""
  for package in "$@"; do
    if [ "$package" = clang ]; then
      find_clang >/dev/null || clang=yes
      continue
    fi
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
  done
  [ -n "$missing$clang" ] || return 0
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing and there is no sudo to install them:$missing"
    sudo=sudo
  fi
  $sudo apt-get -qq update || echo "note: apt-get update failed; trying with the lists that are there" >&2
  [ -z "$clang" ] || missing="$missing $(clang_packages)"
  echo "installing:$missing"
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null ||
    fail "apt-get could not install:$missing"
}

# The libraries for arm64 in build/sysroot-arm64. Several cannot be installed beside those of this machine, so apt loads
# them, with all they need, for an empty arm64 system of its own; nothing of this machine's changes.
need_sysroot() {
  local sysroot=$PWD/build/sysroot-arm64 apt=$PWD/build/apt-arm64 wanted package link
  [ ! -e "$sysroot" ] || return 0
  command -v apt-get >/dev/null || fail "the libraries for arm64 come with apt-get, which is not here"
  wanted=$(echo "$apt_build" | tr ' ' '\n' | grep -E -- '-dev$')
  echo "unpacking libraries for arm64"
  rm -rf "$apt" "$sysroot.new"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$sysroot.new"
  touch "$apt/status"
  apt_get_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Dir::State="$apt" \
      -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" "$@"
  }
  # shellcheck disable=SC2086
  { apt_get_arm64 update && apt_get_arm64 install -y --no-install-recommends --download-only libstdc++6 $wanted; } \
    >"$apt/log" 2>&1 || {
    tail -5 "$apt/log" >&2
    fail "the libraries for arm64 could not be loaded: apt's sources must have that architecture, as Debian's do"
  }
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$sysroot.new"; done
  [ -e "$sysroot.new/lib" ] || ln -s usr/lib "$sysroot.new/lib"
  # Links from the root on would lead out of it.
  find "$sysroot.new" -type l -lname '/*' | while read -r link; do ln -sfn "$sysroot$(readlink "$link")" "$link"; done
  mv "$sysroot.new" "$sysroot"
  rm -rf "$apt"
}

need_homebrew() {
  xcode-select -p >/dev/null 2>&1 || fail "Apple's command line tools are missing: run 'xcode-select --install' first"
  command -v brew >/dev/null || fail "Homebrew is missing: see https://brew.sh"
  brew bundle check --no-upgrade --file=Brewfile >/dev/null 2>&1 || brew bundle install --no-upgrade --file=Brewfile
}

# The release tree, built: the command is then build/release/anemone.
build_release() {
  configure release ${ANEMONE_WERROR:+-DANEMONE_WERROR=$ANEMONE_WERROR}
  build release "$@"
}

configure() {
  local preset=$1 log
  shift
  mkdir -p build
  log=build/configure-$preset.log
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    fail "configuring '$preset' failed"
  }
}

# Quiet when it works, everything when it does not; a progress line on a terminal.
build() {
  local preset=$1 log
  shift
  log=build/build-$preset.log
  if [ -t 1 ]; then
    cmake --build --preset "$preset" "$@" || fail "building '$preset' failed"
  else
    cmake --build --preset "$preset" "$@" >"$log" 2>&1 || {
      grep -v '^\[' "$log" | tail -60 >&2
      fail "building '$preset' failed; all of it is in $log"
    }
  fi
}
