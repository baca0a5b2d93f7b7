# The CUDA backend, where nvcc is found: HAVE_CUDA, the objects of its kernels and the sources around them. The runtime is
# linked statically, and looks for a driver when a GPU is asked for, so one program serves machines with and without one.
#
# AUTO leaves out builds that compute on the CPU alone: for other machines, under sanitizers, by other compilers than gcc.
set(CUDA_OLDEST 11.8) # it knows sm_90
option(SEMFOCUS_CUDA_QUICK "compile CUDA kernels for sm_90 alone: enough to test that they compile" OFF)

function(find_nvcc result)
  set(${result} "" PARENT_SCOPE)
  find_program(NVCC nvcc HINTS $ENV{CUDACXX} $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(NOT NVCC)
    set(CUDA_ABSENT "nvcc was not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE about ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" version "${about}")
  if(NOT version OR CMAKE_MATCH_1 VERSION_LESS CUDA_OLDEST)
    set(CUDA_ABSENT "${NVCC} is older than ${CUDA_OLDEST}" PARENT_SCOPE)
    return()
  endif()
  set(${result} ${NVCC} PARENT_SCOPE)
endfunction()

set(HAVE_CUDA OFF)
set(CUDA_OBJECTS "")
set(CUDA_SOURCES train/cuda/absent.c)
set(CUDA_LIBRARIES "")  # that the runtime needs
set(CUDA_PKG_CONFIG "") # the same for pkg-config

if(SEMFOCUS_CUDA STREQUAL OFF)
  set(CUDA_ABSENT "SEMFOCUS_CUDA is OFF")
elseif(SEMFOCUS_CUDA STREQUAL AUTO AND (CMAKE_CROSSCOMPILING OR SEMFOCUS_SANITIZE OR NOT CMAKE_C_COMPILER_ID STREQUAL GNU))
  set(CUDA_ABSENT "a build for the CPU alone")
else()
  find_nvcc(NVCC_FOUND)
endif()

if(NVCC_FOUND)
  include(CheckLanguage)
  if(NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${NVCC_FOUND})
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(HAVE_CUDA ON)
  else()
    set(CUDA_ABSENT "${NVCC_FOUND} does not work with this compiler")
  endif()
endif()
if(SEMFOCUS_CUDA STREQUAL ON AND NOT HAVE_CUDA)
  message(FATAL_ERROR "SEMFOCUS_CUDA is ON but ${CUDA_ABSENT}; set CUDACXX to another nvcc, or use AUTO")
endif()

if(HAVE_CUDA)
  if(SEMFOCUS_CUDA_QUICK)
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual) # PTX of the last for what comes after it
  endif()
  set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3") # without -g: nvcc's debugging information names folders of this machine
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS kernels/cuda/*.c train/cuda/*.c)
  list(FILTER CUDA_SOURCES EXCLUDE REGEX "train/cuda/absent.c$")
  file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS kernels/cuda/*.cu)
  add_library(semfocus_cuda OBJECT ${CUDA_KERNELS})
  # A multiply-add is fused where the code says so; division and square root are those of IEEE by default.
  target_compile_options(semfocus_cuda PRIVATE -fmad=false -Xcompiler=-Wall,-Wextra,-fvisibility=hidden)
  if(SEMFOCUS_WERROR)
    target_compile_options(semfocus_cuda PRIVATE -Werror=all-warnings)
  endif()
  # Launches without variables that the C++ library guards: C programs link the static library without it.
  target_compile_definitions(semfocus_cuda PRIVATE __NV_LEGACY_LAUNCH)
  target_compile_options(semfocus_cuda PRIVATE -Xcompiler=-fno-exceptions,-D__NV_LEGACY_LAUNCH)
  target_include_directories(semfocus_cuda PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(semfocus_cuda PROPERTIES CUDA_STANDARD 17)
  set(CUDA_OBJECTS $<TARGET_OBJECTS:semfocus_cuda>)
  set(CUDA_LIBRARIES pthread rt)
  set(CUDA_PKG_CONFIG "-lpthread -lrt")
endif()

# Adds the runtime to a static library, which then needs no toolkit where it is used.
function(add_cuda_runtime library)
  if(NOT HAVE_CUDA)
    return()
  endif()
  set(script ${PROJECT_BINARY_DIR}/${library}.mri)
  file(GENERATE OUTPUT ${script} CONTENT "OPEN $<TARGET_FILE:${library}>\nADDLIB $<TARGET_FILE:CUDA::cudart_static>\nSAVE\nEND\n")
  add_custom_command(TARGET ${library} POST_BUILD COMMAND ${CMAKE_AR} -M < ${script})
endfunction()
