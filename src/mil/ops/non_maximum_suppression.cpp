// The boxes that remain when those that overlap a better one are removed.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// Since iOS 17 the boxes are the last dimension, there is no score threshold and no count, and an overlap equal
// to the threshold hides a box too: coremltools' tests of nms hold Core ML to either.
bool boxes_last(const OpCall& c) { return c.since() >= Opset::ios17; }

Types infer(const OpCall& c) {
  const Type &boxes = c.type("boxes"), &scores = c.type("scores");
  if (boxes.rank() != 3 || scores.rank() != 3)
    throw errorf("'boxes' and 'scores' must have rank 3").found(boxes.text() + " and " + scores.text());
  const int box_axis = boxes_last(c) ? 2 : 1, value_axis = 3 - box_axis;
  const Dim batch = merged(boxes.dim(0), scores.dim(0));
  merged(boxes.dim(box_axis), scores.dim(box_axis));
  merged(boxes.dim(value_axis), Dim(4));
  const int64_t most = c.integer("max_boxes");
  if (most < 0) throw errorf("'max_boxes' is negative").found(fmt::format("{}", most));
  const Dim n = most, classes = scores.dim(value_axis);
  const Type indices = Type::tensor(DType::int32, {batch, n});
  if (boxes_last(c))
    return {Type::tensor(boxes.dtype, {batch, Dim(4), n}), Type::tensor(scores.dtype, {batch, classes, n}),
            indices};
  return {Type::tensor(boxes.dtype, {batch, n, Dim(4)}), Type::tensor(scores.dtype, {batch, n, classes}),
          indices, Type::tensor(DType::int32, {batch})};
}

struct Box {
  float left, right, top, bottom, area;
};

// Of a negative size its edges are swapped, and the box overlaps nothing, as in Core ML.
Box box_from(float x, float y, float width, float height) {
  const float w = width / 2, h = height / 2;
  return {x - w, x + w, y - h, y + h, width * height};
}

// Intersection over union; a box without area overlaps nothing.
float overlap(const Box& a, const Box& b) {
  if (!(a.area > 0) || !(b.area > 0)) return 0;
  const float w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(w > 0) || !(h > 0)) return 0;
  return w * h / (a.area + b.area - w * h);
}

// The boxes and scores of one entry of the batch.
class Suppression {
 public:
  Suppression(const OpCall& c, int64_t entry) {
    const std::vector<int64_t> dims = c.type("scores").dims();
    const int64_t n = dims[boxes_last(c) ? 2 : 1], classes = dims[boxes_last(c) ? 1 : 2];
    const float* boxes = c.floats("boxes") + entry * n * 4;
    const float* scores = c.floats("scores") + entry * n * classes;
    for (int64_t i = 0; i < n; ++i) {
      const auto part = [&](int64_t k) { return boxes_last(c) ? boxes[k * n + i] : boxes[i * 4 + k]; };
      const auto score = [&](int64_t k) {
        return boxes_last(c) ? scores[k * n + i] : scores[i * classes + k];
      };
      boxes_.push_back(box_from(part(0), part(1), part(2), part(3)));
      int64_t best = 0;
      for (int64_t k = 1; k < classes; ++k)
        if (score(k) > score(best)) best = k;
      class_.push_back(best);
      score_.push_back(classes > 0 ? score(best) : 0);
    }
  }

  // In the order of their scores, the best first. One box is always kept.
  std::vector<int64_t> kept(const OpCall& c) const {
    const int64_t most = c.integer("max_boxes");
    const auto iou_threshold = static_cast<float>(c.number("iou_threshold"));
    const bool per_class = c.flag("per_class_suppression");
    const auto too_much = [&](float share) {
      return boxes_last(c) ? share > 0 && share >= iou_threshold : share > iou_threshold;
    };
    const float least = boxes_last(c) ? -INFINITY : static_cast<float>(c.number("score_threshold"));
    std::vector<int64_t> order(boxes_.size()), out;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    for (const int64_t i : order) {
      if (static_cast<int64_t>(out.size()) == most) break;
      if (score(i) < least) break;
      const bool hidden = std::any_of(out.begin(), out.end(), [&](int64_t k) {
        return (!per_class || class_at(k) == class_at(i)) && too_much(overlap(box(k), box(i)));
      });
      if (!hidden) out.push_back(i);
    }
    if (out.empty() && most > 0 && !order.empty()) out.push_back(order[0]);
    return out;
  }

 private:
  float score(int64_t i) const { return score_[static_cast<size_t>(i)]; }
  int64_t class_at(int64_t i) const { return class_[static_cast<size_t>(i)]; }
  const Box& box(int64_t i) const { return boxes_[static_cast<size_t>(i)]; }

  std::vector<Box> boxes_;
  std::vector<float> score_;
  std::vector<int64_t> class_;
};

// Copies the values of the boxes kept; zeros fill up.
void take(const OpCall& c, std::string_view param, int output, int64_t entry,
          const std::vector<int64_t>& kept) {
  const std::vector<int64_t> in = c.type(param).dims(), out = c.out_type(output).dims();
  const int64_t n = boxes_last(c) ? in[2] : in[1], values = boxes_last(c) ? in[1] : in[2];
  const int64_t most = boxes_last(c) ? out[2] : out[1];
  const float* from = c.floats(param) + entry * n * values;
  float* to = c.out_floats(output) + entry * most * values;
  std::fill(to, to + most * values, 0.0f);
  for (size_t i = 0; i < kept.size(); ++i)
    for (int64_t v = 0; v < values; ++v) {
      const auto k = static_cast<int64_t>(i);
      if (boxes_last(c))
        to[v * most + k] = from[v * n + kept[i]];
      else
        to[k * values + v] = from[kept[i] * values + v];
    }
}

void run(const OpCall& c) {
  const int64_t batch = c.type("boxes").dim(0).size(), most = c.integer("max_boxes");
  c.pool().parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const auto kept = Suppression(c, b).kept(c);
      take(c, "boxes", 0, b, kept);
      take(c, "scores", 1, b, kept);
      for (int64_t i = 0; i < most; ++i)
        c.out_ints(2)[b * most + i] =
            i < static_cast<int64_t>(kept.size()) ? static_cast<int32_t>(kept[static_cast<size_t>(i)]) : -1;
      if (!boxes_last(c)) c.out_ints(3)[b] = static_cast<int32_t>(kept.size());
    }
  });
}

std::vector<Param> params(bool threshold) {
  std::vector<Param> out = {
      {"boxes", kFloat, 'T'}, {"scores", kFloat, 'T'}, {"iou_threshold", kFloat, 'T', kConst}};
  if (threshold) out.push_back({"score_threshold", kFloat, 'T', kConst});
  out.push_back({"max_boxes", kInt32, 0, kConst});
  out.push_back({"per_class_suppression", kBool, 0, kOptional | kConst, false});
  return out;
}

const Op kOps[] = {{
    "non_maximum_suppression",
    {{Opset::ios15, params(true)}, {Opset::ios17, params(false)}},
    "the best boxes (x, y of the center, width, height), without those that overlap a better one",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_non_maximum_suppression() { return kOps; }

}  // namespace anemone::ops
