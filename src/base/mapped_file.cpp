#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/paths.h"

namespace anemone {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path.string();
  // Not blocking: a pipe would wait for a writer, and is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) throw missing_path(file->path_);
  if (fd < 0) throw errorf("cannot be opened: {}", std::strerror(errno)).at(file->path_);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error("is not a file").at(file->path_).expected("a regular file");
  }
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ > 0) {
    void* mapping = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int why = errno;
    if (mapping == MAP_FAILED) {
      ::close(fd);
      throw errorf("cannot be mapped: {}", std::strerror(why)).at(file->path_);
    }
    file->data_ = static_cast<const std::byte*>(mapping);
  }
  ::close(fd);
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::from_bytes(std::string name, std::string bytes) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = std::move(name);
  file->owned_ = std::move(bytes);
  file->data_ = reinterpret_cast<const std::byte*>(file->owned_.data());
  file->size_ = file->owned_.size();
  return file;
}

MappedFile::~MappedFile() {
  if (data_ && owned_.empty() && size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::span<const std::byte> MappedFile::slice(uint64_t offset, uint64_t size, std::string_view what) const {
  if (offset > size_ || size > size_ - offset)
    throw errorf("{} needs {} bytes at offset {}, past the end", what, size, offset)
        .at(path_)
        .found(fmt::format("a file of {} bytes", size_))
        .hint("was the download cut short?");
  return bytes().subspan(offset, size);
}

void MappedFile::release(uint64_t offset, uint64_t size) const noexcept {
  if (!owned_.empty() || !data_) return;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page;
  const uint64_t end = (offset + size) / page * page;
  if (end > begin) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace anemone
