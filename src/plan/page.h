// The simulator: one self-contained page with sliders for model, precision, context and chip. Its data (chips, known
// models, constants of the fit) is written into it from the same tables that the planner uses.
//     write_plan_page("plan.html", &planner, options);        // opens with this model
#pragma once

#include <filesystem>
#include <string>

#include "plan/planner.h"

namespace anemone {

// `own`: a model that is offered first, or nullptr; `options`: what the page opens with.
std::string plan_page(const Planner* own, const ModelPlanOptions& options);
void write_plan_page(const std::filesystem::path& path, const Planner* own, const ModelPlanOptions& options);

}  // namespace anemone
