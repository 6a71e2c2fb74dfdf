// map_pages: maps the pages of memory that comes from a file before they are used, so that no use has to wait.
//     if (map_pages(file->bytes())) …
#pragma once

#include <cstddef>
#include <span>

namespace anemone {

// Reads from the disk what the system has not read yet. False where the system cannot, or something went wrong: the
// pages are then mapped when they are used, as always.
bool map_pages(std::span<const std::byte> bytes) noexcept;

}  // namespace anemone
