// Reports of a plan for programs: JSON, and the data of the simulator page.
//     nlohmann::ordered_json j = plan_json(plan);
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/planner.h"

namespace anemone {

nlohmann::ordered_json model_json(const PlanSource& source, const Planner& planner);
nlohmann::ordered_json plan_json(const ModelPlan& plan);
nlohmann::ordered_json calibration_json();

}  // namespace anemone
