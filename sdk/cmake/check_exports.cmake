# cmake -DNM=nm -DFILE=libx.so -P check_exports.cmake: fails unless the entry point is the only symbol exported.
cmake_minimum_required(VERSION 3.16)
execute_process(COMMAND ${NM} --dynamic --defined-only --format=posix ${FILE}
                OUTPUT_VARIABLE table RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${FILE}: cannot list its symbols with ${NM}")
endif()
string(REGEX REPLACE "[ ][^\n]*\n" ";" symbols "${table}")
list(REMOVE_ITEM symbols "")
if(NOT symbols STREQUAL "cuboid_plugin_v1")
  file(REMOVE ${FILE})
  message(FATAL_ERROR "${FILE}: exports [${symbols}], expected exactly cuboid_plugin_v1. Is CUBOID_PLUGIN(...) missing?")
endif()
