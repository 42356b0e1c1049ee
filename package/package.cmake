# What is installed: the libraries, headers, manual pages, documents, the command when it was built, and what finds them (pkg-config, CMake).
# SPDX-License-Identifier: BSD-2-Clause
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS vmag vmag_static EXPORT vmag LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/jemalloc include/vmag DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/umem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/sys/vmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sys)
foreach(section 3 5 7)
  install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} FILES_MATCHING PATTERN "*.${section}")
endforeach()
# Manual pages and meanings of options name documents by their paths. Where the sources came without them they are left out.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/vmag OPTIONAL)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/vmag OPTIONAL)
# The command, when it was built (tool/build.sh), with its manual pages and completions.
install(PROGRAMS ${PROJECT_BINARY_DIR}/bin/vmag DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)

# The other names. ldconfig enters libraries by the name inside, so these are found where LD_LIBRARY_PATH, a run path or `-L` leads: in
# a folder of their own for who asks for them, LD_LIBRARY_PATH=…/lib/vmag.
foreach(name IN LISTS UMEM_NAMES)
  install(FILES $<TARGET_FILE_DIR:vmag>/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
set(INSTALL ${PROJECT_BINARY_DIR}/install)
foreach(name libjemalloc.so.2 libumem.so.0 libumem.so.1 libumem_malloc.so.0)
  file(MAKE_DIRECTORY ${INSTALL})
  file(CREATE_LINK ../libvmag.so ${INSTALL}/${name} SYMBOLIC)
  install(FILES ${INSTALL}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/vmag)
endforeach()

# find_package(vmag) gives vmag::vmag and vmag::static.
set(PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/vmag)
file(WRITE ${INSTALL}/vmagConfig.cmake "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/vmagTargets.cmake)\n")
write_basic_package_version_file(${INSTALL}/vmagConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${INSTALL}/vmagConfig.cmake ${INSTALL}/vmagConfigVersion.cmake DESTINATION ${PACKAGE})
install(EXPORT vmag NAMESPACE vmag:: FILE vmagTargets.cmake DESTINATION ${PACKAGE})

# The prefix is known when it is installed (cmake --install --prefix).
foreach(kind LIBDIR INCLUDEDIR)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_${kind} BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE ${kind})
endforeach()
install(CODE "set(LIBDIR [[${LIBDIR}]])\nset(INCLUDEDIR [[${INCLUDEDIR}]])\nset(VERSION ${PROJECT_VERSION})
  configure_file([[${CMAKE_CURRENT_LIST_DIR}/vmag.pc.in]] [[${INSTALL}/vmag.pc]] @ONLY)")
install(FILES ${INSTALL}/vmag.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
