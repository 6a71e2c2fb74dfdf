# Puts a text file into the library:  anemone_embed(kPlanBody page/plan.html)  defines
#     extern const std::string_view kPlanBody;         in namespace anemone
function(anemone_embed symbol file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  file(READ ${file} embedded_text)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp CONTENT [[
#include <string_view>

namespace anemone {

extern const std::string_view @symbol@;
const std::string_view @symbol@ = R"embedded(@embedded_text@)embedded";

}  // namespace anemone
]] @ONLY)
  target_sources(anemone PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
endfunction()
