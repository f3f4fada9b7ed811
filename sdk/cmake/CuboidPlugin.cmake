# cuboid_add_plugin(NAME source...): a loadable plugin libNAME.so that exports its one entry point and nothing else.
# Hidden visibility, a version script, no unique symbols (they would be shared between plugins), no undefined symbols;
# the exports are checked after every link. Link further libraries with target_link_libraries(NAME PRIVATE ...).
set(CUBOID_PLUGIN_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR} CACHE INTERNAL "")

function(cuboid_add_plugin name)
  if(NOT ARGN)
    message(FATAL_ERROR "cuboid_add_plugin(${name}): no sources given")
  endif()
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE cuboid::sdk)
  target_compile_features(${name} PRIVATE cxx_std_17)
  set_target_properties(
    ${name}
    PROPERTIES PREFIX lib
               C_VISIBILITY_PRESET hidden
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(map ${CUBOID_PLUGIN_CMAKE_DIR}/plugin.map)
    target_link_options(${name} PRIVATE LINKER:--version-script=${map})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
    # A sanitizer's runtime is in the program, so a sanitized plugin has undefined symbols.
    if(NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}" MATCHES "-fsanitize")
      target_link_options(${name} PRIVATE LINKER:-z,defs)
    endif()
    add_custom_command(
      TARGET ${name}
      POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DFILE=$<TARGET_FILE:${name}> -P
              ${CUBOID_PLUGIN_CMAKE_DIR}/check_exports.cmake
      VERBATIM)
  endif()
endfunction()
