#!/bin/bash
# Makes Frameworks/CAnemone.xcframework: the C++ core of AnemoneKit for macOS, iOS and the iOS simulator, arm64 each, as
# one static library with all that it is built on. Once, and again after a change to src/ or include/. On a Mac with
# Xcode 16 or newer and CMake 3.25 or newer; the first time it fetches the sources of eight libraries.
#     swift/build_xcframework.sh                    all three
#     swift/build_xcframework.sh macos              only some of: macos ios simulator
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/.." && pwd)
work=$source/build/xcframework
out=$here/Frameworks/CAnemone.xcframework
fail() {
  echo "error: $*" >&2
  exit 2
}
[ "$(uname)" = Darwin ] || fail "an XCFramework is made on a Mac; tests/swift/run.sh tests the package on Linux"
for tool in cmake xcodebuild xcrun git pkg-config; do
  command -v $tool >/dev/null || fail "$tool is not installed (brew install cmake pkg-config; Xcode has the others)"
done
[ $# -gt 0 ] || set -- macos ios simulator

# Flags of CMake for a platform.
platform_flags() {
  local common="-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_OSX_ARCHITECTURES=arm64 -DBUILD_SHARED_LIBS=OFF"
  # Programs of these libraries are no apps.
  local phone="-DCMAKE_SYSTEM_NAME=iOS -DCMAKE_OSX_DEPLOYMENT_TARGET=18.0 -DCMAKE_MACOSX_BUNDLE=OFF"
  command -v ninja >/dev/null || common=${common#-G Ninja }
  case $1 in
    macos) echo "$common -DCMAKE_OSX_DEPLOYMENT_TARGET=15.0" ;;
    ios) echo "$common $phone -DCMAKE_OSX_SYSROOT=iphoneos" ;;
    simulator) echo "$common $phone -DCMAKE_OSX_SYSROOT=iphonesimulator" ;;
    *) fail "the platform '$1' is none of macos, ios, simulator" ;;
  esac
}

# configure_and_build PLATFORM SOURCES BUILD_FOLDER TARGET FLAGS …
# Libraries are looked for in our own folder and in the SDK, never in Homebrew's. Some of their files ask for policies
# that CMake 4 has dropped.
configure_and_build() {
  local platform=$1 sources=$2 build=$3 target=$4 flags
  shift 4
  flags=$(platform_flags "$platform")
  # shellcheck disable=SC2086
  cmake -S "$sources" -B "$build" $flags -DCMAKE_INSTALL_PREFIX="$work/$platform/deps" \
    -DCMAKE_PREFIX_PATH="$work/$platform/deps" -DCMAKE_FIND_ROOT_PATH="$work/$platform/deps" \
    -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=BOTH \
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=BOTH "-DCMAKE_IGNORE_PREFIX_PATH=/opt/homebrew;/usr/local" \
    -DPKG_CONFIG_EXECUTABLE="$(command -v pkg-config)" -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" \
    >"$build.log" 2>&1 || fail "see $build.log"
  cmake --build "$build" --parallel --target "$target" >>"$build.log" 2>&1 || fail "see $build.log"
}

# build_library PLATFORM NAME ADDRESS TAG FOLDER FLAGS …: FOLDER is where its CMakeLists.txt is.
build_library() {
  local platform=$1 name=$2 address=$3 tag=$4 folder=$5
  shift 5
  [ ! -e "$work/$platform/$name-$tag.done" ] || return 0
  echo "$platform: $name $tag"
  [ -d "$work/sources/$name-$tag" ] ||
    git clone --quiet --depth 1 --branch "$tag" "$address" "$work/sources/$name-$tag"
  configure_and_build "$platform" "$work/sources/$name-$tag/$folder" "$work/$platform/$name" all "$@"
  cmake --install "$work/$platform/$name" >>"$work/$platform/$name.log"
  touch "$work/$platform/$name-$tag.done"
}

# What the library is built on, without tests and tools.
build_dependencies() {
  local hub=https://github.com
  build_library "$1" fmt $hub/fmtlib/fmt 11.1.4 . -DFMT_TEST=OFF -DFMT_DOC=OFF
  build_library "$1" highway $hub/google/highway 1.2.0 . -DBUILD_TESTING=OFF -DHWY_ENABLE_TESTS=OFF \
    -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF
  build_library "$1" simdjson $hub/simdjson/simdjson v3.12.3 . -DSIMDJSON_DEVELOPER_MODE=OFF
  build_library "$1" pcre2 $hub/PCRE2Project/pcre2 pcre2-10.44 . -DPCRE2_BUILD_TESTS=OFF -DPCRE2_BUILD_PCRE2GREP=OFF
  build_library "$1" utf8proc $hub/JuliaStrings/utf8proc v2.10.0 . -DUTF8PROC_ENABLE_TESTING=OFF
  build_library "$1" xxhash $hub/Cyan4973/xxHash v0.8.3 cmake_unofficial -DXXHASH_BUILD_XXHSUM=OFF
  build_library "$1" json $hub/nlohmann/json v3.11.3 . -DJSON_BuildTests=OFF
  build_library "$1" protozero $hub/mapbox/protozero v1.8.0 . -DBUILD_TESTING=OFF
}

mkdir -p "$work/sources" "$here/Frameworks"
slices=()
for platform in "$@"; do
  platform_flags "$platform" >/dev/null
  mkdir -p "$work/$platform/deps/lib"
  build_dependencies "$platform"
  echo "$platform: anemone"
  PKG_CONFIG_LIBDIR=$work/$platform/deps/lib/pkgconfig configure_and_build "$platform" "$source" \
    "$work/$platform/anemone" anemone -DANEMONE_CLI=OFF -DANEMONE_TESTS=OFF -DANEMONE_HUB=OFF
  xcrun libtool -static -o "$work/$platform/libCAnemone.a" "$work/$platform/anemone/src/libanemone.a" \
    "$work/$platform"/deps/lib/*.a 2>"$work/$platform/libtool.log" || fail "see $work/$platform/libtool.log"
  mkdir -p "$work/$platform/headers/anemone"
  cp "$source/include/anemone/anemone.h" "$work/$platform/headers/anemone/"
  printf 'module CAnemone {\n  header "anemone/anemone.h"\n  export *\n}\n' >"$work/$platform/headers/module.modulemap"
  slices+=(-library "$work/$platform/libCAnemone.a" -headers "$work/$platform/headers")
done
rm -rf "$out"
xcodebuild -create-xcframework "${slices[@]}" -output "$out" >/dev/null
echo "made $out"
