# What `cmake --install` puts where; sdk/ and plugins/ install their own. Included last: all targets are there.
#   bin/cuboid   libexec/cuboid/cuboid-worker   lib/cuboid/plugins/*.so   lib/libcuboid.so
#   include/cuboid/: plugin.h, plugin.hpp (SDK), cuboid.h (engine) and, in storage/, the headers that it includes
#   lib/cmake/cuboid/   lib/pkgconfig/cuboid.pc, share/pkgconfig/cuboid-sdk.pc
install(TARGETS cuboid DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cuboid-worker DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cuboid)

install(TARGETS cuboid_engine EXPORT cuboid-engine DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT cuboid-engine NAMESPACE cuboid:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cuboid)
install(FILES engine/include/cuboid/cuboid.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cuboid)
install(FILES storage/error.h storage/types.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cuboid/storage)
configure_file(cmake/cuboid.pc.in cuboid.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cuboid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
