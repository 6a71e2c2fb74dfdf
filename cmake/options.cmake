# Compiler flags shared by everything in the tree.
find_program(ANEMONE_CCACHE ccache)
if(ANEMONE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache needs the first two for precompiled headers. The others let it take one whose list CMake wrote a moment
  # ago: GCC makes a precompiled header differently each time, and a new one would miss all that was built with the
  # old.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                                  ${ANEMONE_CCACHE})
endif()

# What most files include, precompiled: read once for all of them. A file still includes all that it uses: the neon
# preset builds without (CMAKE_DISABLE_PRECOMPILE_HEADERS).
set(ANEMONE_COMMON_HEADERS <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
                           <memory> <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility>
                           <variant> <vector> <fmt/format.h>)

add_library(anemone_flags INTERFACE)
target_compile_options(anemone_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and overruns in std::string's operator+ that are not there (its bug 105651), and members of an
  # empty std::optional as used (105562).
  target_compile_options(anemone_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                                -Wno-maybe-uninitialized)
endif()
if(CMAKE_UNITY_BUILD)
  # Names of files that are compiled together shadow one another; dev, which compiles file by file, looks for the rest.
  target_compile_options(anemone_flags INTERFACE -Wno-shadow)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It means headers, and takes the files of a unity build for some.
  target_compile_options(anemone_flags INTERFACE -Wno-subobject-linkage)
endif()
# a * b + c is rounded twice, as it is written, on every machine: compilers would else fuse it where the CPU can, and a
# package made on arm64 could differ from the same one made on x86-64. Where fusing is wanted, MulAdd says so.
target_compile_options(anemone_flags INTERFACE -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # A precompiled header is then the same file each time, and ccache finds what was built with it.
  target_compile_options(anemone_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
endif()
if(ANEMONE_WERROR)
  target_compile_options(anemone_flags INTERFACE -Werror)
endif()
# The oldest CPU that the portable code runs on; kernels/ goes further at run time.
set(cpus ${CMAKE_SYSTEM_PROCESSOR})
if(APPLE AND CMAKE_OSX_ARCHITECTURES)
  set(cpus ${CMAKE_OSX_ARCHITECTURES})
endif()
if(cpus MATCHES "^(x86_64|AMD64)$")
  target_compile_options(anemone_flags INTERFACE -march=x86-64-v2)
elseif("x86_64" IN_LIST cpus)  # a universal build: the other CPU must not see the flag
  target_compile_options(anemone_flags INTERFACE "SHELL:-Xarch_x86_64 -march=x86-64-v2")
endif()
if(ANEMONE_SANITIZE)
  target_compile_options(anemone_flags INTERFACE -fsanitize=${ANEMONE_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(anemone_flags INTERFACE -fsanitize=${ANEMONE_SANITIZE})
endif()
if(ANEMONE_FUZZERS)
  target_compile_options(anemone_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
