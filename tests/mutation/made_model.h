// Made-up models of every family: a configuration of small sizes and its tensors, both from a seed.
//     write_made_model(folder, "gemma3", 7);             // config.json and model.safetensors
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace anemone::mutation {

// "llama", "gemma3", "bert tokens" …
std::vector<std::string> made_families();
bool made_is_encoder(const std::string& family);
// A configuration that the family takes, of random sizes, biases, ropes, windows, caps.
nlohmann::ordered_json made_config(const std::string& family, uint64_t seed);
void write_made_model(const std::filesystem::path& folder, const std::string& family, uint64_t seed);

}  // namespace anemone::mutation
