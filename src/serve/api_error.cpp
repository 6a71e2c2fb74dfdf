#include "serve/api_error.h"

#include "base/error.h"
#include "predict/prediction_error.h"

namespace anemone::serve {
namespace {

// Without where it happened: that may be a path.
std::string words_of(const Error& error) {
  std::string text = error.message();
  if (!error.found().empty()) text += fmt::format("; found {}", error.found());
  if (!error.expected().empty()) text += fmt::format("; expected {}", error.expected());
  return text;
}

}  // namespace

ApiError::ApiError(int status, std::string message, std::string param)
    : status_(status), message_(std::move(message)), param_(std::move(param)) {}

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
  }
}

Json ApiError::body() const {
  Json error = {{"message", message_},
                {"type", error_type(status_)},
                {"param", param_.empty() ? Json(nullptr) : Json(param_)},
                {"code", status_}};
  error.update(more);
  return {{"error", error}};
}

ApiError as_api_error(const std::exception& problem) {
  if (const auto* own = dynamic_cast<const ApiError*>(&problem)) return *own;
  if (dynamic_cast<const PredictionError*>(&problem)) return fault_of_server("a prediction failed", problem);
  if (const auto* error = dynamic_cast<const Error*>(&problem)) return ApiError(400, words_of(*error));
  // A field that is read without a look at its type first.
  if (dynamic_cast<const Json::exception*>(&problem))
    return ApiError(400, "a field of the request has the wrong type");
  return fault_of_server("something went wrong inside the server", problem);
}

ApiError fault_of_server(const std::string& what, const std::exception& problem) {
  if (const auto* own = dynamic_cast<const ApiError*>(&problem)) return *own;
  const auto* error = dynamic_cast<const Error*>(&problem);
  const bool says_more =
      error && error->message() != what && error->message().find_first_of("/\\") == std::string::npos;
  ApiError out(500, says_more ? fmt::format("{}: {}", what, error->message()) : what);
  out.inside = problem.what();
  return out;
}

}  // namespace anemone::serve
