# find_package(cuboid): cuboid::sdk and cuboid_add_plugin(); cuboid::cuboid too where the engine is installed.
include(${CMAKE_CURRENT_LIST_DIR}/cuboid-sdk-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/CuboidPlugin.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/cuboid-engine.cmake OPTIONAL)
