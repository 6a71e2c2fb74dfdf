# Puts files of any size into the library, as they are:
#     anemone_embed_files(shipped_files.cpp FILES config ${folder}/config.json weights ${folder}/model.safetensors)
# makes, in namespace anemone, for each name  extern "C" const char anemone_file_<name>[], anemone_file_<name>_end[];
# The assembler reads the files, so that the compiler need not: 4 MB take no time.
function(anemone_embed_files output)
  cmake_parse_arguments(PARSE_ARGV 1 embed "" "" "FILES")
  set(text "// Made by cmake/embed_files.cmake.\n")
  string(APPEND text "#if defined(__APPLE__)\n#define SECTION \".section __TEXT,__const\\n\"\n#define NAME(x) \"_\" x\n"
         "#else\n#define SECTION \".section .rodata\\n\"\n#define NAME(x) x\n#endif\n")
  set(inputs "")
  while(embed_FILES)
    list(POP_FRONT embed_FILES name file)
    list(APPEND inputs ${file})
    set(symbol anemone_file_${name})
    string(APPEND text "__asm__(SECTION \".global \" NAME(\"${symbol}\") \"\\n\"\n"
           "        \".global \" NAME(\"${symbol}_end\") \"\\n\"\n"
           "        \".balign 64\\n\" NAME(\"${symbol}\") \":\\n.incbin \\\"${file}\\\"\\n\"\n"
           "        NAME(\"${symbol}_end\") \":\\n.byte 0\\n.text\\n\");\n")
  endwhile()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output} CONTENT "${text}" @ONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${output} TARGET_DIRECTORY anemone PROPERTIES
                              OBJECT_DEPENDS "${inputs}" SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(anemone PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${output})
endfunction()
