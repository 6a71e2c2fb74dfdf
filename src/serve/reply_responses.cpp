#include "serve/reply_forms.h"

namespace anemone::serve {

ResponsesReply::ResponsesReply(ReplySetup setup, PartsOptions parts, Json echo)
    : Reply(std::move(setup)), parts_(parts), echo_(std::move(echo)) {
  id_ = random_id("resp_");
  message_id_ = random_id("msg_");
  reasoning_id_ = random_id("rs_");
}

void ResponsesReply::send(const char* type, Json data) {
  if (!setup_.request.stream) return;
  data["type"] = type;
  data["sequence_number"] = sequence_++;
  event(data, type);
}

Json ResponsesReply::response(const char* status) const {
  const Generation& g = states_[0].answer;
  const bool complete = std::string_view(status) == "completed";
  const bool cut = complete && std::string_view(finish_reason(g)) == "length";
  Json out = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", cut ? "incomplete" : status},
              {"error", nullptr},
              {"incomplete_details", cut ? Json{{"reason", "max_output_tokens"}} : Json(nullptr)},
              {"model", setup_.model->name()},
              {"output", output_},
              {"parallel_tool_calls", !setup_.request.one_call}};
  out.update(echo_);
  if (complete) {
    const Json u = usage();
    out["usage"] = {{"input_tokens", u["prompt_tokens"]},
                    {"input_tokens_details", u["prompt_tokens_details"]},
                    {"output_tokens", u["completion_tokens"]},
                    {"output_tokens_details", {{"reasoning_tokens", 0}}},
                    {"total_tokens", u["total_tokens"]}};
  }
  return out;
}

void ResponsesReply::stream_begin() {
  send("response.created", {{"response", response("in_progress")}});
  send("response.in_progress", {{"response", response("in_progress")}});
}

void ResponsesReply::stream_progress(size_t, const Json& progress) {
  send("response.in_progress", {{"response", response("in_progress")}, {"prompt_progress", progress}});
}

Json ResponsesReply::message_item(const char* status) const {
  Json content = Json::array();
  if (std::string_view(status) == "completed")
    content.push_back({{"type", "output_text"},
                       {"text", text_},
                       {"annotations", Json::array()},
                       {"logprobs", Json::array()}});
  return {{"id", message_id_},
          {"type", "message"},
          {"role", "assistant"},
          {"status", status},
          {"content", content}};
}

void ResponsesReply::open_message() {
  if (message_open_) return;
  close_reasoning();
  message_open_ = true;
  send("response.output_item.added",
       {{"output_index", output_.size()}, {"item", message_item("in_progress")}});
  send("response.content_part.added", {{"item_id", message_id_},
                                       {"output_index", output_.size()},
                                       {"content_index", 0},
                                       {"part",
                                        {{"type", "output_text"},
                                         {"text", ""},
                                         {"annotations", Json::array()},
                                         {"logprobs", Json::array()}}}});
}

void ResponsesReply::close_message() {
  if (!message_open_) return;
  message_open_ = false;
  const Json item = message_item("completed");
  const Json place = {{"item_id", message_id_}, {"output_index", output_.size()}, {"content_index", 0}};
  Json text = place, part = place;
  text["text"] = text_;
  text["logprobs"] = Json::array();
  part["part"] = item["content"][0];
  send("response.output_text.done", text);
  send("response.content_part.done", part);
  send("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(item);
  message_id_ = random_id("msg_");
  text_.clear();
}

void ResponsesReply::close_reasoning() {
  if (!reasoning_open_) return;
  reasoning_open_ = false;
  const Json item = {{"id", reasoning_id_},
                     {"type", "reasoning"},
                     {"summary", Json::array()},
                     {"content", Json::array({{{"type", "reasoning_text"}, {"text", reasoning_}}})},
                     {"status", "completed"}};
  send("response.reasoning_text.done", {{"item_id", reasoning_id_},
                                        {"output_index", output_.size()},
                                        {"content_index", 0},
                                        {"text", reasoning_}});
  send("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(item);
}

void ResponsesReply::add_call(const Part& part) {
  close_reasoning();
  close_message();
  const std::string id = random_id("fc_");
  Json item = {{"id", id},          {"type", "function_call"}, {"call_id", random_id("call_")},
               {"name", part.name}, {"arguments", ""},         {"status", "in_progress"}};
  send("response.output_item.added", {{"output_index", output_.size()}, {"item", item}});
  send("response.function_call_arguments.delta",
       {{"item_id", id}, {"output_index", output_.size()}, {"delta", part.text}});
  send("response.function_call_arguments.done",
       {{"item_id", id}, {"output_index", output_.size()}, {"name", part.name}, {"arguments", part.text}});
  item["arguments"] = part.text;
  item["status"] = "completed";
  send("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(item);
}

void ResponsesReply::take(std::vector<Part> parts) {
  for (const Part& part : parts) {
    if (part.kind == Part::Kind::call) {
      add_call(part);
    } else if (part.kind == Part::Kind::reasoning) {
      if (!reasoning_open_)
        send("response.output_item.added", {{"output_index", output_.size()},
                                            {"item",
                                             {{"id", reasoning_id_},
                                              {"type", "reasoning"},
                                              {"summary", Json::array()},
                                              {"status", "in_progress"}}}});
      reasoning_open_ = true;
      reasoning_ += part.text;
      send("response.reasoning_text.delta", {{"item_id", reasoning_id_},
                                             {"output_index", output_.size()},
                                             {"content_index", 0},
                                             {"delta", part.text}});
    } else {
      open_message();
      text_ += part.text;
      Json delta = {{"item_id", message_id_},
                    {"output_index", output_.size()},
                    {"content_index", 0},
                    {"delta", part.text},
                    {"logprobs", Json::array()}};
      if (setup_.request.timings_each) delta["timings"] = timings(states_[0].answer);
      send("response.output_text.delta", std::move(delta));
    }
  }
}

void ResponsesReply::stream_piece(size_t, const Generation& so_far, std::string_view fresh) {
  states_[0].answer.stats = so_far.stats;
  take(parts_.feed(fresh));
}

void ResponsesReply::stream_end_of(size_t) {
  take(parts_.finish());
  if (output_.empty()) open_message();
  close_reasoning();
  close_message();
  const Json whole = response("completed");
  send(whole["status"] == "incomplete" ? "response.incomplete" : "response.completed",
       {{"response", whole}, {"timings", timings(states_[0].answer)}});
}

Json ResponsesReply::whole() {
  take(parts_.feed(states_[0].answer.text));
  take(parts_.finish());
  if (output_.empty()) open_message();
  close_reasoning();
  close_message();
  return response("completed");
}

}  // namespace anemone::serve
