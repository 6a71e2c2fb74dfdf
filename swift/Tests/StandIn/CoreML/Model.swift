import Foundation
import StandInEngine

public enum MLComputeUnits: Int, Sendable {
  case cpuOnly = 0
  case cpuAndGPU = 1
  case all = 2
  case cpuAndNeuralEngine = 3
}

public final class MLModelConfiguration {
  public var computeUnits = MLComputeUnits.all
  public var functionName: String?
  public var modelDisplayName: String?
  public init() {}
}

/// What tests can switch and count. They reset it; one test runs at a time.
public final class StandIn: @unchecked Sendable {
  public static let shared = StandIn()
  private let lock = NSLock()
  private var values = Values()

  public struct Values {
    public var compiled = 0  // packages
    public var loaded: [String] = []  // functions, by name
    public var predictions = 0
    public var failingPrediction: Int?  // this one, counted from 1 on, fails
    public var failsToCompile = false
    public var failsToLoad = false
    public var sharesStates = true  // false: a function works on zeros where another one made the state
    public var refusesStates = false  // true: it refuses such a state
    public var beforePrediction: (() -> Void)?
    public var overlaps = 0  // predictions on a state that another one used
  }

  public func reset() { lock.withLock { values = Values() } }
  public func change(_ body: (inout Values) -> Void) { lock.withLock { body(&values) } }
  public var now: Values { lock.withLock { values } }
}

struct StandInError: LocalizedError {
  let text: String
  var errorDescription: String? { text }
}

/// With another error under it, where the reason stands, as Core ML's errors have it.
func failure(_ text: String, under: String) -> NSError {
  NSError(
    domain: "com.apple.CoreML", code: 0,
    userInfo: [
      NSLocalizedDescriptionKey: text,
      NSUnderlyingErrorKey: NSError(domain: "ANE", code: -14, userInfo: [NSLocalizedDescriptionKey: under]),
    ])
}

public final class MLState {
  let handle: OpaquePointer
  let maker: MLModel
  private let lock = NSLock()
  private var isBusy = false

  init(_ maker: MLModel) {
    self.maker = maker
    guard let made = stand_in_state_new(maker.handle) else { fatalError(String(cString: stand_in_error())) }
    handle = made
  }
  deinit { stand_in_state_free(handle) }

  func use<R>(_ body: () throws -> R) rethrows -> R {
    lock.withLock {
      if isBusy { StandIn.shared.change { $0.overlaps += 1 } }
      isBusy = true
    }
    defer { lock.withLock { isBusy = false } }
    return try body()
  }

  /// The array is another one at each call, and is gone afterwards.
  public func withMultiArray<R>(for stateName: String, _ body: (MLMultiArray) throws -> R) rethrows -> R {
    guard let known = maker.modelDescription.stateDescriptionsByName[stateName] else {
      fatalError("no state '\(stateName)'")
    }
    let array = MLMultiArray(known.shape, .float16, padded: true)
    var values = [Float](repeating: 0, count: array.count)
    guard stand_in_state_get(handle, stateName, &values, Int64(values.count)) == 0 else {
      fatalError(String(cString: stand_in_error()))
    }
    array.floats = values
    defer {
      values = array.floats
      if stand_in_state_set(handle, stateName, values, Int64(values.count)) != 0 {
        fatalError(String(cString: stand_in_error()))
      }
    }
    return try use { try body(array) }
  }
}

public final class MLModel {
  public let modelDescription = MLModelDescription()
  let handle: OpaquePointer
  private let function: String

  /// As a compiler leaves it: a folder in a temporary place.
  public static func compileModel(at modelURL: URL) async throws -> URL {
    if StandIn.shared.now.failsToCompile {
      throw failure("Failed to build the model.", under: "error code: -14")
    }
    StandIn.shared.change { $0.compiled += 1 }
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString + ".mlmodelc")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try FileManager.default.copyItem(at: modelURL, to: folder.appendingPathComponent("inside.mlpackage"))
    return folder
  }

  public static func load(contentsOf url: URL, configuration: MLModelConfiguration) async throws -> MLModel {
    try MLModel(contentsOf: url, configuration: configuration)
  }

  public init(contentsOf url: URL, configuration: MLModelConfiguration) throws {
    let inside = url.appendingPathComponent("inside.mlpackage").path
    if StandIn.shared.now.failsToLoad || !FileManager.default.fileExists(atPath: inside) {
      throw failure("Unable to load model.", under: "error code: -14")
    }
    guard let made = stand_in_open(inside, configuration.functionName) else {
      throw StandInError(text: String(cString: stand_in_error()))
    }
    handle = made
    function = configuration.functionName ?? "main"
    modelDescription.inputDescriptionsByName = describe(Int32(STAND_IN_INPUTS))
    modelDescription.outputDescriptionsByName = describe(Int32(STAND_IN_OUTPUTS))
    modelDescription.stateDescriptionsByName = describe(Int32(STAND_IN_STATES))
    StandIn.shared.change { $0.loaded.append(function) }
  }
  deinit { stand_in_close(handle) }

  private func describe(_ kind: Int32) -> [String: MLFeatureDescription] {
    var out: [String: MLFeatureDescription] = [:]
    for i in 0..<stand_in_count(handle, kind) {
      let name = String(cString: stand_in_name(handle, kind, i))
      let shape = (0..<stand_in_rank(handle, kind, i)).map { Int(stand_in_size(handle, kind, i, $0)) }
      let type = stand_in_is_int32(handle, kind, i) != 0 ? MLMultiArrayDataType.int32 : .float16
      out[name] = MLFeatureDescription(name, shape, type, isState: kind == Int32(STAND_IN_STATES))
    }
    return out
  }

  public func makeState() -> MLState { MLState(self) }

  public func prediction(from input: any MLFeatureProvider) throws -> any MLFeatureProvider {
    guard modelDescription.stateDescriptionsByName.isEmpty else {
      throw StandInError(text: "a stateful model needs a state")
    }
    return try run(input, nil)
  }

  public func prediction(from input: any MLFeatureProvider, using state: MLState) throws -> any MLFeatureProvider {
    try state.use {
      if state.maker === self || StandIn.shared.now.sharesStates { return try run(input, state.handle) }
      if StandIn.shared.now.refusesStates { throw failure("The state was created by a different model.", under: "-") }
      let zeros = MLState(self)
      return try withExtendedLifetime(zeros) { try run(input, zeros.handle) }
    }
  }

  private func run(_ input: any MLFeatureProvider, _ state: OpaquePointer?) throws -> any MLFeatureProvider {
    var fails = false
    StandIn.shared.change {
      $0.predictions += 1
      fails = $0.predictions == $0.failingPrediction
    }
    StandIn.shared.now.beforePrediction?()
    if fails { throw failure("Unable to compute the prediction.", under: "error code: -1") }
    let names = modelDescription.inputDescriptionsByName.keys.sorted()
    var arrays: [MLMultiArray] = []
    for name in names {
      guard let array = input.featureValue(for: name)?.multiArrayValue else {
        throw StandInError(text: "Feature \(name) is required but not specified.")
      }
      guard array.dataType == modelDescription.inputDescriptionsByName[name]?.type else {
        throw StandInError(text: "Feature \(name) has another data type.")
      }
      arrays.append(array)
    }
    let result = predict(names, arrays, state)
    guard let result else { throw StandInError(text: String(cString: stand_in_error())) }
    defer { stand_in_result_free(result) }
    let outputs = Outputs()
    for name in modelDescription.outputDescriptionsByName.keys {
      let rank = stand_in_result_rank(result, name)
      guard rank >= 0, let values = stand_in_result_values(result, name) else { continue }
      let shape = (0..<rank).map { Int(stand_in_result_size(result, name, $0)) }
      let array = MLMultiArray(shape, .float16, padded: true)
      array.floats = Array(UnsafeBufferPointer(start: values, count: array.count))
      outputs.values[name] = MLFeatureValue(multiArray: array)
    }
    return outputs
  }

  private func predict(_ names: [String], _ arrays: [MLMultiArray], _ state: OpaquePointer?) -> OpaquePointer? {
    let ranks = arrays.map { Int32($0.shape.count) }
    let shapes = arrays.flatMap { $0.shape.map { $0.int64Value } }
    let values = arrays.map { array -> UnsafeMutablePointer<Float> in
      let floats = array.floats
      let copy = UnsafeMutablePointer<Float>.allocate(capacity: max(floats.count, 1))
      copy.update(from: floats, count: floats.count)
      return copy
    }
    let texts = names.map { strdup($0) }
    defer {
      values.forEach { $0.deallocate() }
      texts.forEach { free($0) }
    }
    return stand_in_predict(
      handle, state, Int32(names.count), texts.map { UnsafePointer($0) }, ranks, shapes,
      values.map { UnsafePointer($0) })
  }
}
