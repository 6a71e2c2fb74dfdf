// What stands at a path that a verb was given, and what to do about it when the verb takes something else.
//     expect_source("run", "model.gguf", kBundle);
//     // error: model.gguf: this is a GGUF checkpoint, and run takes a bundle; convert it first: anemone convert …
#pragma once

#include <string>
#include <string_view>

namespace anemone::cli {

// What verbs take; a set of them is their sum.
inline constexpr unsigned kBundle = 1;      // a folder that convert wrote
inline constexpr unsigned kPackage = 2;     // an .mlpackage, .mlmodelc, .mlmodel or .mil
inline constexpr unsigned kCheckpoint = 4;  // what one of checkpoint/formats claims
inline constexpr unsigned kConfig = 8;      // config.json, or a folder with one and no weights
inline constexpr unsigned kTokenizer = 16;  // a tokenizer.json or tokenizer.model, or a folder with one
inline constexpr unsigned kName = 32;       // a name that is no path: the verb knows what it means
inline constexpr unsigned kNetwork = 64;    // an .onnx file that is no checkpoint

// Error, with the command that fits, where something else stands at `path`, or nothing.
void expect_source(std::string_view verb, const std::string& path, unsigned kinds);

// Error where there is nothing at `path`, with a name near it, or the model of the hub that was meant.
void expect_path(const std::string& path);

// A name for the bundle of a model, beside the program's working folder: the model's, without its ending.
std::string bundle_name(const std::string& model);
// The same, or with a number behind it where something stands there already.
std::string free_bundle_name(const std::string& model);

}  // namespace anemone::cli
