// Pages of memory: large ones, and those of a file mapped before they are used, so that no use has to wait.
//     prefer_large_pages(file->bytes());     // before the first byte is read
//     if (map_pages(file->bytes())) …
#pragma once

#include <cstddef>
#include <span>

namespace anemone {

// What is read from the disk from now on is kept in large pages, where the file system has them: fewer look-ups of
// addresses, faster streams.
void prefer_large_pages(std::span<const std::byte> bytes) noexcept;

// Reads from the disk what the system has not read yet. False where the system cannot, or something went wrong: the
// pages are then mapped when they are used, as always.
bool map_pages(std::span<const std::byte> bytes) noexcept;

// The small objects that this process makes from now on lie in large pages: thousands of page faults fewer at its
// start. The heap grows in steps of 32 MiB and gives back only what is free beyond that. For commands that end soon.
void use_large_heap() noexcept;

}  // namespace anemone
