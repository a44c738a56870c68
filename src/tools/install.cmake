# Man pages and bash completion, made by the program itself from its command table; installed beside the programs.
set(pages kagami kagami-mirror kagami-topic kagami-produce kagami-consume kagami-dump-log kagami-completion kagami-help)
set(generated ${CMAKE_BINARY_DIR}/gen/man)
set(outputs)
foreach(page ${pages})
  add_custom_command(OUTPUT ${generated}/${page}.1
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND kagami help --man ${page} > ${generated}/${page}.1
    DEPENDS kagami VERBATIM)
  list(APPEND outputs ${generated}/${page}.1)
  install(FILES ${generated}/${page}.1 DESTINATION share/man/man1)
endforeach()
if(TARGET kagamid)
  add_custom_command(OUTPUT ${generated}/kagamid.8
    COMMAND sh -c "\"$1\" --help | \"$2\" help --man kagamid --man-section 8 > \"$3\"" sh $<TARGET_FILE:kagamid> $<TARGET_FILE:kagami>
            ${generated}/kagamid.8
    DEPENDS kagami kagamid VERBATIM)
  list(APPEND outputs ${generated}/kagamid.8)
  install(FILES ${generated}/kagamid.8 DESTINATION share/man/man8)
endif()
add_custom_command(OUTPUT ${generated}/kagami.bash
  COMMAND kagami completion > ${generated}/kagami.bash
  DEPENDS kagami VERBATIM)
install(FILES ${generated}/kagami.bash DESTINATION share/bash-completion/completions RENAME kagami)
add_custom_target(kagami_docs ALL DEPENDS ${outputs} ${generated}/kagami.bash)
