// Between C++ and Foundation: texts, numbers, errors. For Objective-C++ alone, with ARC.
//     NSString* name = ns_string("layers_00");
//     throw core_ml_error("the model cannot be loaded", problem);
#pragma once

#import <CoreML/CoreML.h>
#import <Foundation/Foundation.h>

#include <filesystem>
#include <string>
#include <vector>

#include "anemone/array.h"
#include "anemone/error.h"

namespace anemone {

NSString* ns_string(const std::string& text);
std::string cpp_string(NSString* text);
NSURL* ns_url(const std::filesystem::path& path);
std::filesystem::path cpp_path(NSURL* url);
NSArray<NSNumber*>* ns_numbers(const std::vector<int64_t>& values);
std::vector<int64_t> cpp_numbers(NSArray<NSNumber*>* values);
// DType::none for a type that this file does not know.
DType dtype_of(MLMultiArrayDataType type);
MLMultiArrayDataType array_type(DType dtype);

// Core ML's own words, those of the errors under it included: the reason mostly stands there.
std::string error_text(NSError* error);
// `what` failed; with the meaning that `doctor` knows for Core ML's words as the hint.
Error core_ml_error(const std::string& what, NSError* error);

}  // namespace anemone
