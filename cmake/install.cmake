# `cmake --install`: the command, its completions, the library, the public headers, and a package config, so that
# another project says find_package(anemone) and links anemone::anemone.
#
# The library is static: whoever links it also links what it is built on. The config finds those again on the machine
# where it is used, so the list is read off the target and no folder of this machine is written into it.
include(CMakePackageConfigHelpers)

set(ANEMONE_FIND "")
set(ANEMONE_LINK "")
get_target_property(linked anemone LINK_LIBRARIES)
foreach(library ${linked})
  if(library MATCHES "^::@" OR library MATCHES "BUILD_INTERFACE" OR library MATCHES "^nlohmann_json::")
    continue()  # scopes of CMake, our compiler flags, headers only
  elseif(library MATCHES "^PkgConfig::(.+)$")
    set(prefix ${CMAKE_MATCH_1})
    string(APPEND ANEMONE_FIND "find_dependency(PkgConfig)\n"
                  "pkg_check_modules(${prefix} REQUIRED QUIET IMPORTED_TARGET ${${prefix}_MODULE_NAME})\n")
  elseif(library MATCHES "^([A-Za-z0-9_]+)::")
    string(APPEND ANEMONE_FIND "find_dependency(${CMAKE_MATCH_1})\n")
  elseif(IS_ABSOLUTE "${library}")
    get_filename_component(name ${library} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    string(APPEND ANEMONE_FIND "find_library(ANEMONE_${name} ${name} REQUIRED)\n")
    set(library "\${ANEMONE_${name}}")
  endif()
  list(APPEND ANEMONE_LINK ${library})
endforeach()
list(REMOVE_DUPLICATES ANEMONE_LINK)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/anemone)
configure_package_config_file(cmake/anemoneConfig.cmake.in ${PROJECT_BINARY_DIR}/anemoneConfig.cmake
                              INSTALL_DESTINATION ${config_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/anemoneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/anemoneConfig.cmake ${PROJECT_BINARY_DIR}/anemoneConfigVersion.cmake
        DESTINATION ${config_dir})
install(TARGETS anemone ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET anemone_c)
  install(TARGETS anemone_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/anemone DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(ANEMONE_CLI)
  install(TARGETS anemone_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(shell bash zsh)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/completion.${shell} VERBATIM DEPENDS anemone_cli
                       COMMAND anemone_cli completion ${shell} > ${PROJECT_BINARY_DIR}/completion.${shell})
  endforeach()
  add_custom_target(completions ALL DEPENDS ${PROJECT_BINARY_DIR}/completion.bash ${PROJECT_BINARY_DIR}/completion.zsh)
  install(FILES ${PROJECT_BINARY_DIR}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME anemone)
  install(FILES ${PROJECT_BINARY_DIR}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
          RENAME _anemone)
endif()
