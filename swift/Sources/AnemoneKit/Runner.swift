import CoreML
import Foundation

/// Takes tokens through the stages of a bundle. It belongs to one thread at a time: a session's queue.
final class Runner {
  /// What the head gave for the last token.
  enum Outcome {
    case logits([Float])
    case best(Int32)
  }
  private enum Want { case nothing, head }
  private struct Chunk { let tokens, width: Int }

  let model: AnemoneModel
  private(set) var ids: [Int32] = []  // all tokens so far
  var position: Int { ids.count }
  /// Asked before each stage; true stops the call with a CancellationError.
  var isCancelled: () -> Bool = { false }

  private var info: BundleInfo { model.info }
  private let past: Past
  private let filler: InputFiller
  private let useLongRope: Bool

  init(_ model: AnemoneModel) {
    self.model = model
    past = Past(model)
    filler = InputFiller(model.info, model.embedding)
    // Decided once for a text, by the positions that it may use: rows of the cache are already rotated.
    useLongRope = model.info.ropes.contains { rope in
      rope.longFrequencies != nil && model.context > rope.originalContext ?? Int.max
    }
  }

  // MARK: - Tokens in, logits out

  /// Appends tokens; what the head says of the last one. After an error the session is as it was before the chunk that
  /// failed.
  func feed(_ tokens: [Int32]) throws -> Outcome {
    guard !tokens.isEmpty else { throw AnemoneError.core("no tokens to append") }
    guard let outcome = try advance(tokens, .head) else { throw AnemoneError.damaged("the bundle gave no logits") }
    return outcome
  }

  private func advance(_ tokens: [Int32], _ want: Want) throws -> Outcome? {
    guard position + tokens.count <= model.context else {
      throw AnemoneError.contextFull(tokens: position + tokens.count, context: model.context)
    }
    for id in tokens where id < 0 || Int(id) >= model.vocabulary { throw AnemoneError.unknownToken(Int(id)) }
    var left = tokens[...]
    var outcome: Outcome?
    while !left.isEmpty {
      if position == past.tier, let longer = model.tiers.first(where: { $0 > past.tier }) {
        try past.move(to: longer)
      }
      let chunk = try choose(left.count)
      let fed = Array(left.prefix(chunk.tokens))
      left = left.dropFirst(chunk.tokens)
      let before = position
      do {
        outcome = try autoreleasepool { try run(fed, chunk, left.isEmpty ? want : .nothing) }
      } catch {
        // Layers before the fault may have moved on.
        ids.removeSubrange(before...)
        _ = try past.goBack(to: before)
        throw error
      }
    }
    return outcome
  }

  /// What a call costs, in calls of a few tokens: reading the weights, and arithmetic that grows with the width.
  private func cost(_ width: Int) -> Double { 1 + Double(width) / 8 }

  /// The function of this tier that is cheapest for each of the remaining tokens that it takes; it may be padded.
  private func choose(_ left: Int) throws -> Chunk {
    let most = min(left, past.tier - position)
    var best: Chunk?
    for function in info.stages[0].functions where function.context == nil || function.context == past.tier {
      let tokens = min(most, function.most)
      let width = function.least == function.most ? function.most : max(tokens, function.least)
      // A slice write puts the rows of the padding into the cache too: they must fit.
      if function.inputs.contains(where: { $0.role == "position" }), position + width > past.tier { continue }
      if let now = best, cost(width) * Double(now.tokens) >= cost(now.width) * Double(tokens) { continue }
      best = Chunk(tokens: tokens, width: width)
    }
    guard let best else {
      throw AnemoneError.unsupported(
        "no function of the bundle takes \(most) tokens at position \(position): convert with --tokens 1 as well")
    }
    return best
  }

  // MARK: - One pass through the stages

  /// What goes from stage to stage.
  fileprivate struct Stream {
    var handed: [String: MLMultiArray] = [:]  // stream and carried: what the last stage gave
    var filled: [RoleKey: MLMultiArray] = [:]  // inputs that several stages take, filled once
  }

  private func run(_ fed: [Int32], _ chunk: Chunk, _ want: Want) throws -> Outcome? {
    var pass = Pass(
      ids: fed, position: position, width: chunk.width, context: past.tier, useLongRope: useLongRope)
    var stream = Stream()
    var heads: [(LoadedFunction, MLFeatureProvider)] = []
    for stage in info.stages.indices where info.stages[stage].hasLayers {
      let result = try predict(stage, pass, &stream)
      if info.stages[stage].hasHead { heads.append(result) }
    }
    ids += fed
    try past.takeSnapshot(at: position)
    guard want == .head else { return nil }
    var column = fed.count - 1
    if headTakesOneToken {
      try stream.takeColumn(column)
      pass.width = 1
      column = 0
    }
    for stage in info.stages.indices where info.stages[stage].hasHead && !info.stages[stage].hasLayers {
      heads.append(try predict(stage, pass, &stream))
    }
    return try read(heads, column)
  }

  /// Whether the heads can be asked for one column alone. They are a large part of a small model.
  private var headTakesOneToken: Bool {
    info.stages.allSatisfy { stage in
      !stage.hasHead || (!stage.hasLayers && stage.functions.contains { $0.least == 1 })
    }
  }

  private func predict(
    _ stage: Int, _ pass: Pass, _ stream: inout Stream
  ) throws -> (LoadedFunction, MLFeatureProvider) {
    if isCancelled() { throw CancellationError() }
    let function = try model.function(stage, width: pass.width, context: pass.context)
    let inputs = Features()
    for port in function.info.inputs {
      inputs.set(port.name, try input(stage, port, function, pass, &stream))
    }
    let result = try function.predict(inputs, try past.state(stage, for: function))
    for port in function.info.outputs {
      if port.role == "stream" || port.role == "carried" {
        stream.handed[port.role] = try function.output(port, of: result)
      } else if port.keptKey != nil {
        try past.keep(
          stage, port, try function.output(port, of: result), position: pass.position, tokens: pass.ids.count)
      }
    }
    return (function, result)
  }

  private func input(
    _ stage: Int, _ port: BundleInfo.Port, _ function: LoadedFunction, _ pass: Pass, _ stream: inout Stream
  ) throws -> MLMultiArray {
    if port.isMemory { return try past.array(stage, port, function) }
    if let handed = stream.handed[port.role] ?? stream.filled[port.key] { return handed }
    if port.role == "carried" {
      throw AnemoneError.damaged("\(function.package): no stage gave what '\(port.name)' takes over")
    }
    let array = try filler.fill(port, pass, declared: function.declared(port.name))
    stream.filled[port.key] = array
    return array
  }

  // MARK: - What the heads gave

  private func read(_ heads: [(LoadedFunction, MLFeatureProvider)], _ column: Int) throws -> Outcome {
    if info.givesOnlyBest { return .best(try readBest(heads, column)) }
    var logits = [Float](repeating: -.infinity, count: model.vocabulary)
    for (function, result) in heads {
      for port in function.info.outputs where port.role == "logits" {
        guard let rows = port.rows else { continue }
        try function.output(port, of: result).readHalves(port.name) { values in
          guard values.shape[1] == rows[1] - rows[0], column < values.shape[2] else {
            throw AnemoneError.damaged("the output '\(port.name)' has the shape \(values.shape)")
          }
          for r in 0..<values.shape[1] { logits[rows[0] + r] = Float(values.at(0, r, column, 0).pointee) }
        }
      }
    }
    return .logits(logits)
  }

  /// Of the heads' best tokens the best; of equal ones the first.
  private func readBest(_ heads: [(LoadedFunction, MLFeatureProvider)], _ column: Int) throws -> Int32 {
    var best: (score: Float, id: Int)?
    for (function, result) in heads {
      func number(_ port: BundleInfo.Port) throws -> Float {
        try function.output(port, of: result).readHalves(port.name) { Float($0.at(0, 0, column, 0).pointee) }
      }
      let outputs = function.info.outputs
      for port in outputs where port.role == "best" {
        let score = try number(port)
        if let now = best, score <= now.score { continue }
        guard let rows = port.rows,
          let high = outputs.first(where: { $0.role == "best_high" && $0.rows == rows }),
          let low = outputs.first(where: { $0.role == "best_low" && $0.rows == rows })
        else { throw AnemoneError.damaged("an output that belongs to '\(port.name)' is missing") }
        best = (score, rows[0] + Int(try number(high)) * 128 + Int(try number(low)))
      }
    }
    guard let best else { throw AnemoneError.damaged("the bundle gave no best token") }
    return Int32(best.id)
  }

  // MARK: - Going back

  /// Forgets all tokens from `target` on. What comes next is as in a session that never saw them.
  func rewind(to target: Int) throws {
    guard (0...position).contains(target) else {
      throw AnemoneError.cannotRewind(to: target, position: position)
    }
    if target == position { return }
    let from = try past.goBack(to: target)
    let again = Array(ids[from..<target])
    ids.removeSubrange(from...)
    if !again.isEmpty { _ = try advance(again, .nothing) }
  }

  /// How many of these tokens are the session's past already, in the same order from the start.
  func commonPrefix(_ other: [Int32]) -> Int { zip(ids, other).prefix { $0 == $1 }.count }
}

extension Runner.Stream {
  /// From here on the stream is this column of it.
  fileprivate mutating func takeColumn(_ column: Int) throws {
    guard let all = handed["stream"] else { throw AnemoneError.damaged("no stage gave a stream") }
    filled = [:]
    if all.sizes[2] == 1 { return }
    handed["stream"] = try all.readHalves("stream") { from in
      let one = try MLMultiArray.halves([1, from.shape[1], 1, 1])
      try one.withHalves("stream") { to in
        for c in 0..<from.shape[1] { to.at(0, c, 0, 0).pointee = from.at(0, c, column, 0).pointee }
      }
      return one
    }
  }
}
