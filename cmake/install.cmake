# What 'cmake --install' puts where, and the Debian package made of it. No installed file names a folder of this machine:
# the package files find the rest relative to themselves.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(MANUAL ${PROJECT_BINARY_DIR}/semfocus.1.gz)
find_program(GZIP_PROGRAM gzip REQUIRED)
add_custom_command(
  OUTPUT ${MANUAL}
  COMMAND semfocus man > ${PROJECT_BINARY_DIR}/semfocus.1
  COMMAND ${GZIP_PROGRAM} -9nf ${PROJECT_BINARY_DIR}/semfocus.1
  DEPENDS semfocus)
add_custom_target(manual ALL DEPENDS ${MANUAL})

install(TARGETS semfocus RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/semfocus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES cli/completion/semfocus.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME semfocus)
install(FILES cli/completion/_semfocus DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES cli/completion/semfocus.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# What the Python package holds.
if(SKBUILD)
  install(TARGETS semfocus_shared LIBRARY DESTINATION semfocus/lib COMPONENT python)
  install(TARGETS semfocus RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()

# find_package(semfocus) gives semfocus::shared and, where jansson, SQLite, inih and OpenMP are found, semfocus::static.
set(PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/semfocus)
set_target_properties(semfocus_library PROPERTIES EXPORT_NAME static)
set_target_properties(semfocus_shared PROPERTIES EXPORT_NAME shared)
install(TARGETS semfocus_shared EXPORT semfocus-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS semfocus_library EXPORT semfocus-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(kind shared static)
  install(EXPORT semfocus-${kind} NAMESPACE semfocus:: DESTINATION ${PACKAGE})
endforeach()
configure_package_config_file(cmake/semfocus-config.cmake.in ${PROJECT_BINARY_DIR}/semfocus-config.cmake INSTALL_DESTINATION ${PACKAGE})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/semfocus-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/semfocus-config.cmake ${PROJECT_BINARY_DIR}/semfocus-config-version.cmake DESTINATION ${PACKAGE})

file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(cmake/semfocus.pc.in ${PROJECT_BINARY_DIR}/semfocus.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/semfocus.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The semfocus authors <semfocus@localhost>" CACHE STRING "maintainer that the Debian package names")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "lab for attention mechanisms of transformers")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Trains small transformers with any attention mechanism on algorithmic
tasks and says which mechanism learns faster and generalizes better.
The package holds the program with its manual and shell completion, and
the library with its headers and examples.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
