// The page at /: its files, inside of the program.
//     if (const PageFile* file = find_page_file("/page/main.js")) send(file->type, file->text);
#pragma once

#include <string_view>

#include "serve/http_server.h"

namespace anemone::serve {

struct PageFile {
  std::string_view path, type, text;
};

// Null: no file of the page.
const PageFile* find_page_file(std::string_view path);
// The page runs its own scripts and no others, and talks to nobody but this server.
const HttpHeaders& page_headers();

}  // namespace anemone::serve
