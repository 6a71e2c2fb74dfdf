// Workers: runs numbered jobs in child processes, so that a job that crashes or never ends takes nothing else with it.
//     run_jobs(count, 2, 60, [&](size_t job, const JobPlace& place) { return answer_text; },
//              [&](size_t job, const std::string& answer) { … });
// Children are forked from this process and know all that it knows. They take jobs in order, so neighbours that need
// the same preparation share it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace anemone::mutation {

// What a job knows of its place: a folder of its own, and how often it was tried before. It says what it is at.
struct JobPlace {
  std::filesystem::path folder;
  int tries = 0;
  std::function<void(char phase)> say;
};

using DoJob = std::function<std::string(size_t job, const JobPlace& place)>;
// `answer` is what the job gave; `failure` says what happened to it where it gave nothing.
using TakeAnswer = std::function<void(size_t job, const std::string& answer, const std::string& failure)>;
// Whether a job that ended badly in this phase shall be tried once more.
using TryAgain = std::function<bool(char phase)>;

// `limit_seconds`: how much time of a processor one phase of a job may take.
void run_jobs(size_t count, int workers, double limit_seconds, const std::filesystem::path& folder,
              const DoJob& run, const TakeAnswer& take, const TryAgain& again = {});

}  // namespace anemone::mutation
