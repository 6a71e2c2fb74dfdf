import CoreML
import Foundation

/// One function of one package, loaded. Sessions share it; synchronous predictions of a model go one after the other.
final class LoadedFunction: @unchecked Sendable {
  let info: BundleInfo.Function
  let package: String
  private let model: MLModel
  private let lock = NSLock()

  init(_ info: BundleInfo.Function, _ package: String, _ model: MLModel) throws {
    self.info = info
    self.package = package
    self.model = model
    let known = model.modelDescription
    try expect(info.inputs, known.inputDescriptionsByName, "input")
    try expect(info.outputs, known.outputDescriptionsByName, "output")
    try expect(info.states ?? [], known.stateDescriptionsByName, "state")
  }

  private func expect(_ ports: [BundleInfo.Port], _ known: [String: MLFeatureDescription], _ what: String) throws {
    for port in ports where known[port.name] == nil {
      throw AnemoneError.damaged(
        "\(package): the compiled function '\(info.name)' has no \(what) '\(port.name)', which bundle.json names")
    }
  }

  /// The shape that the package names for an input; of a flexible one, its default.
  func declared(_ input: String) -> [Int] {
    model.modelDescription.inputDescriptionsByName[input]?.multiArrayConstraint?.shape.map { $0.intValue } ?? []
  }

  func makeState() -> MLState { model.makeState() }

  func predict(_ inputs: Features, _ state: MLState?) throws -> MLFeatureProvider {
    lock.lock()
    defer { lock.unlock() }
    do {
      if let state { return try model.prediction(from: inputs, using: state) }
      return try model.prediction(from: inputs)
    } catch {
      throw AnemoneError.coreML("\(package): a prediction of '\(info.name)' failed", error)
    }
  }

  func output(_ port: BundleInfo.Port, of result: MLFeatureProvider) throws -> MLMultiArray {
    guard let array = result.featureValue(for: port.name)?.multiArrayValue else {
      throw AnemoneError.coreML("\(package): Core ML gave no output '\(port.name)'")
    }
    return array
  }

  /// Inputs of zeros, in the shapes that the package names.
  private func zeros() throws -> Features {
    let features = Features()
    for port in info.inputs {
      let shape = declared(port.name)
      if port.role == "position" {
        let array = try MLMultiArray(shape: [1], dataType: .int32)
        array.withUnsafeMutableBytes { bytes, _ in bytes.storeBytes(of: 0, as: Int32.self) }
        features.set(port.name, array)
      } else {
        let array = try MLMultiArray.halves(shape)
        try array.withHalves(port.name) { $0.clear() }
        features.set(port.name, array)
      }
    }
    return features
  }

  /// Two predictions on zeros: the first ones are slow. They write to a state, so that one is thrown away.
  func prewarm() throws {
    let state = info.states == nil ? nil : makeState()
    let inputs = try zeros()
    for _ in 0..<2 { try autoreleasepool { _ = try predict(inputs, state) } }
  }

  /// Whether this function reads and writes a state that another one made. Core ML's documents do not promise it, so it
  /// is tried: on zeros, with marks in a state of each, the outputs and what is in the states afterwards must be equal.
  func sharesStates(of other: LoadedFunction) -> Bool {
    guard let theirs = try? probe(other.makeState()), let own = try? probe(makeState()) else { return false }
    return theirs == own
  }

  private func probe(_ state: MLState) throws -> [UInt16] {
    for port in info.states ?? [] {
      try state.withArray(port.name) { array in
        try array.withHalves(port.name) { all in
          all.clear()
          for i in 0..<min(all.shape[2], 8) { all.at(0, 0, i, 0).pointee = Float16(i % 7 - 3) / 4 }
        }
      }
    }
    return try autoreleasepool {
      let result = try predict(try zeros(), state)
      var seen: [UInt16] = []
      for port in info.outputs {
        try output(port, of: result).readHalves(port.name) { $0.appendBits(to: &seen) }
      }
      for port in info.states ?? [] {
        try state.withArray(port.name) { try $0.readHalves(port.name) { $0.appendBits(to: &seen) } }
      }
      return seen
    }
  }
}

extension Halves {
  func appendBits(to out: inout [UInt16]) {
    forEachRow { row in for d in 0..<shape[3] { out.append(row[d * strides[3]].bitPattern) } }
  }
}
