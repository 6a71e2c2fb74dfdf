// ApiError: what a request did wrong, as the API says it: a status and OpenAI's error object.
//     throw ApiError(400, "'top_p' must be above 0", "top_p");
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

namespace anemone::serve {

using Json = nlohmann::ordered_json;

class ApiError : public std::exception {
 public:
  // `param`: the field that is to blame; empty: none.
  ApiError(int status, std::string message, std::string param = "");

  int status() const { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }
  // Clients that are told so come again.
  int retry_after = 0;
  Json more = Json::object();  // beside message, type, param and code
  std::string inside;          // what happened, with paths; for the log, never for clients
  Json body() const;

 private:
  int status_;
  std::string message_, param_;
};

// "invalid_request_error" and its like.
const char* error_type(int status);
// The answer to any exception: an Error of the library is the request's fault, whatever else is ours. Paths of this
// machine are left out.
ApiError as_api_error(const std::exception& problem);
// Status 500, for what no request is to blame for. Clients hear what went wrong, not where or with what: a device's own
// words may name files. A message that may hold a path stays inside, too.
ApiError fault_of_server(const std::string& what, const std::exception& problem);

}  // namespace anemone::serve
