import CoreML
import Foundation

/// What a session remembers: caches and recurrent states, as Core ML's states or as arrays that the host keeps. It goes
/// to longer contexts, and back to earlier positions.
final class Past {
  /// A state, and the function whose MLModel made it.
  private struct Held { var state: MLState; var owner: LoadedFunction }
  private typealias Memory = [RoleKey: MLMultiArray]
  /// What recurrent layers remembered when so many tokens had been seen, by stage.
  private struct Snapshot { let position: Int; let stages: [Memory] }

  /// Snapshots are kept of the last so many calls, and before them once in so many positions: a rewind computes at most
  /// that many tokens again.
  private static let recentSnapshots = 16
  private static let snapshotDistance = 64

  private let model: AnemoneModel
  private(set) var tier: Int
  private var held: [Held?]
  private var kept: [Memory]  // by stage: what the host keeps where the functions have no states
  private var snapshots: [Snapshot] = []

  init(_ model: AnemoneModel) {
    self.model = model
    tier = model.tiers[0]
    held = Array(repeating: nil, count: model.info.stages.count)
    kept = Array(repeating: [:], count: model.info.stages.count)
  }

  // MARK: - During a call

  /// The state to run the function on; nil where it has none.
  func state(_ stage: Int, for function: LoadedFunction) throws -> MLState? {
    guard let ports = function.info.states else { return nil }
    guard let now = held[stage] else {
      held[stage] = Held(state: function.makeState(), owner: function)
      return held[stage]?.state
    }
    if now.owner === function || model.sharesStates(from: now.owner, to: function) { return now.state }
    let own = function.makeState()
    for port in ports { try Self.copy(now.state, port.name, to: own, port.name) }
    held[stage] = Held(state: own, owner: function)
    return own
  }

  /// An input that the host keeps; zeros at first.
  func array(_ stage: Int, _ port: BundleInfo.Port, _ function: LoadedFunction) throws -> MLMultiArray {
    if let array = kept[stage][port.key] { return array }
    let shape = function.declared(port.name)
    guard shape.count == 4, shape.allSatisfy({ $0 > 0 }), !port.isCache || (shape[0] == 1 && shape[2] == tier) else {
      throw AnemoneError.damaged("\(function.package): '\(port.name)' has the shape \(shape), which cannot be kept")
    }
    let array = try MLMultiArray.halves(shape)
    try array.withHalves(port.name) { $0.clear() }
    kept[stage][port.key] = array
    return array
  }

  /// Takes what a function gave for the next call: new rows of a cache from `position` on, or a state's next value.
  func keep(_ stage: Int, _ port: BundleInfo.Port, _ output: MLMultiArray, position: Int, tokens: Int) throws {
    guard let key = port.keptKey else { return }
    guard let array = kept[stage][key] else {
      throw AnemoneError.damaged("the output '\(port.name)' belongs to no input")
    }
    try output.readHalves(port.name) { new in
      try array.withHalves(port.name) { all in
        if key.role == "recurrent" {
          guard new.shape == all.shape else { throw Self.misfit(port, new, all) }
          all.copy(from: new)
          return
        }
        guard new.shape[1] == all.shape[1], new.shape[2] >= tokens, new.shape[3] <= all.shape[3] else {
          throw Self.misfit(port, new, all)
        }
        for h in 0..<new.shape[1] {
          for t in 0..<tokens {
            let (from, to) = (new.at(0, h, t, 0), all.at(0, h, position + t, 0))
            for d in 0..<new.shape[3] { to[d * all.strides[3]] = from[d * new.strides[3]] }
          }
        }
      }
    }
  }

  private static func misfit(_ port: BundleInfo.Port, _ new: Halves, _ all: Halves) -> AnemoneError {
    .damaged("the output '\(port.name)' \(new.shape) does not fit what the host keeps, \(all.shape)")
  }

  // MARK: - Longer contexts

  /// Goes to another compiled length. Rows of caches are copied; recurrent states are the same in all lengths.
  func move(to context: Int) throws {
    for stage in model.info.stages.indices {
      for (key, array) in kept[stage] where key.role != "recurrent" {
        var shape = array.sizes
        shape[2] = context
        let longer = try MLMultiArray.halves(shape)
        try longer.withHalves(key.role) { to in
          to.clear()
          try array.readHalves(key.role) { to.copy(from: $0) }
        }
        kept[stage][key] = longer
      }
      guard let now = held[stage] else { continue }
      guard let next = model.info.stages[stage].functions.first(where: { $0.context == context }) else {
        throw AnemoneError.damaged("\(model.info.stages[stage].package) has no function for the context \(context)")
      }
      let function = try model.function(stage, next)
      let state = function.makeState()
      for port in next.states ?? [] {
        guard let from = now.owner.info.states?.first(where: { $0.key == port.key }) else { continue }
        try Self.copy(now.state, from.name, to: state, port.name)
      }
      held[stage] = Held(state: state, owner: function)
    }
    tier = context
  }

  private static func copy(_ from: MLState, _ name: String, to: MLState, _ other: String) throws {
    let value = try from.withArray(name) { try $0.copied(name) }
    try put(value, into: to, other)
  }

  private static func put(_ value: MLMultiArray, into state: MLState, _ name: String) throws {
    try state.withArray(name) { array in
      try array.withHalves(name) { to in
        to.clear()
        try value.readHalves(name) { to.copy(from: $0) }
      }
    }
  }

  // MARK: - Going back

  /// Remembers what recurrent layers hold at this position.
  func takeSnapshot(at position: Int) throws {
    guard model.info.isRecurrent else { return }
    var stages: [Memory] = []
    for stage in model.info.stages.indices {
      var memory: Memory = [:]
      for (key, array) in kept[stage] where key.role == "recurrent" { memory[key] = try array.copied(key.role) }
      if let now = held[stage] {
        for port in now.owner.info.states ?? [] where port.role == "recurrent" {
          memory[port.key] = try now.state.withArray(port.name) { try $0.copied(port.name) }
        }
      }
      stages.append(memory)
    }
    snapshots.append(Snapshot(position: position, stages: stages))
    thinSnapshots()
  }

  /// Of the older ones, the first of each stretch stays.
  private func thinSnapshots() {
    let old = snapshots.count - Self.recentSnapshots
    guard old > 0 else { return }
    var stretch = -1
    let stay = snapshots[..<old].filter { snapshot in
      defer { stretch = snapshot.position / Self.snapshotDistance }
      return snapshot.position / Self.snapshotDistance != stretch
    }
    snapshots.replaceSubrange(..<old, with: stay)
  }

  /// Makes everything as it was at `position`, or at the latest position before it that can be had: that one is the
  /// result, and the tokens since then are to be fed again. A cache needs nothing for it: rows behind the position are
  /// masked out, and written before they are seen again.
  func goBack(to position: Int) throws -> Int {
    var from = position
    if model.info.isRecurrent {
      while let last = snapshots.last, last.position > position { snapshots.removeLast() }
      from = snapshots.last?.position ?? 0
    }
    // The tier where a session with this past would be: the same functions, the same sums.
    let home = model.tiers.first { $0 >= from } ?? model.context
    if home != tier { try move(to: home) }
    if model.info.isRecurrent { try restore(snapshots.last) }
    return from
  }

  /// nil: the start, zeros.
  private func restore(_ snapshot: Snapshot?) throws {
    for stage in model.info.stages.indices {
      for (key, array) in kept[stage] where key.role == "recurrent" {
        try array.withHalves(key.role) { to in
          to.clear()
          try snapshot?.stages[stage][key]?.readHalves(key.role) { to.copy(from: $0) }
        }
      }
      guard let now = held[stage] else { continue }
      for port in now.owner.info.states ?? [] where port.role == "recurrent" {
        if let value = snapshot?.stages[stage][port.key] {
          try Self.put(value, into: now.state, port.name)
        } else {
          try now.state.withArray(port.name) { try $0.withHalves(port.name) { $0.clear() } }
        }
      }
    }
  }
}
