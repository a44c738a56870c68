# messages.h, messages_list.h and messages.c from the schemas. Targets that link kagami_proto wait for them: CMake orders their objects
# behind the generated sources of the libraries they link.
file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/proto/schema/*.api)
set(generated ${CMAKE_BINARY_DIR}/gen/proto/messages.h ${CMAKE_BINARY_DIR}/gen/proto/messages_list.h ${CMAKE_BINARY_DIR}/gen/proto/messages.c)
add_custom_command(
  OUTPUT ${generated}
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/src/proto/generate.py ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/gen/proto
  DEPENDS ${schemas} ${CMAKE_SOURCE_DIR}/src/proto/generate.py ${CMAKE_SOURCE_DIR}/src/proto/schema.py ${CMAKE_SOURCE_DIR}/src/base/mirror_wire.h
  COMMENT "wire messages")
add_custom_target(proto_messages DEPENDS ${generated})
foreach(kind "" ${sanitized})
  target_sources(kagami_proto${kind} PRIVATE ${generated})
  add_dependencies(kagami_proto${kind} proto_messages)
endforeach()
