// The sizes that most weights are made of, as messages say them. Model::origins has them as keys, and the shapes of
// weights (Extent) as factors.
//     fmt::format(fmt::runtime(size_names::kHeads), 8);                // "8 heads"
#pragma once

#include <string_view>

namespace anemone::size_names {

inline constexpr std::string_view kHidden = "hidden size {}";
inline constexpr std::string_view kLayers = "{} layers";
inline constexpr std::string_view kHeads = "{} query heads";
inline constexpr std::string_view kKeyHeads = "{} KV heads";
inline constexpr std::string_view kHeadSize = "head size {}";
inline constexpr std::string_view kMlp = "MLP size {}";
inline constexpr std::string_view kSharedExpert = "shared expert's size {}";
inline constexpr std::string_view kVocabulary = "vocabulary {}";
inline constexpr std::string_view kPositions = "{} positions";
inline constexpr std::string_view kTokenTypes = "{} token types";

}  // namespace anemone::size_names
