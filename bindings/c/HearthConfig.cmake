# find_package(Hearth) gives the target Hearth::hearth.
get_filename_component(_hearth_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Hearth::hearth)
  add_library(Hearth::hearth SHARED IMPORTED)
  set_target_properties(Hearth::hearth PROPERTIES
    IMPORTED_LOCATION "${_hearth_prefix}/lib/libhearth_api.so.0"
    IMPORTED_SONAME "libhearth_api.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_hearth_prefix}/include")
endif()
# The Fortran module: a source to add to a target, as module files are of one compiler.
set(Hearth_FORTRAN_SOURCE "${_hearth_prefix}/share/hearth/fortran/hearth.F90")
unset(_hearth_prefix)
