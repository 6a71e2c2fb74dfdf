// A stand-in for Core ML, for Linux, where the package is tested: as much of its Swift interface as AnemoneKit uses.
// Models run on anemone's CPU engine in fp16 arithmetic. It is nastier than the real thing: rows of outputs and states
// are padded to 64 bytes, new arrays are full of NaN, states move between calls, and StandIn has switches for failures.
import Foundation

public enum MLMultiArrayDataType: Int, Sendable {
  case float16 = 0x10010
  case float32 = 0x10020
  case double = 0x10040
  case int32 = 0x20020

  var bytes: Int { (rawValue & 0xffff) / 8 }
}

public final class MLMultiArray {
  public let shape, strides: [NSNumber]
  public let dataType: MLMultiArrayDataType
  let memory: UnsafeMutableRawPointer
  let bytes: Int

  public convenience init(shape: [NSNumber], dataType: MLMultiArrayDataType) throws {
    self.init(shape.map { $0.intValue }, dataType, padded: false)
  }

  init(_ sizes: [Int], _ type: MLMultiArrayDataType, padded: Bool) {
    shape = sizes.map { NSNumber(value: $0) }
    dataType = type
    var steps = [Int](repeating: 1, count: sizes.count)
    var step = 1
    for i in sizes.indices.reversed() {
      steps[i] = step
      step *= sizes[i]
      if padded, i == sizes.count - 1 { step = (step * type.bytes + 63) / 64 * 64 / type.bytes }
    }
    strides = steps.map { NSNumber(value: $0) }
    bytes = max(step, 1) * type.bytes
    memory = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 64)
    memset(memory, 0x7e, bytes)  // NaN, as halves
  }

  deinit { memory.deallocate() }

  public var count: Int { shape.reduce(1) { $0 * $1.intValue } }

  public func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try body(UnsafeRawBufferPointer(start: memory, count: bytes))
  }
  public func withUnsafeMutableBytes<R>(
    _ body: (UnsafeMutableRawBufferPointer, [Int]) throws -> R
  ) rethrows -> R {
    try body(UnsafeMutableRawBufferPointer(start: memory, count: bytes), strides.map { $0.intValue })
  }

  /// The place of an element, by its number in a dense array.
  private func place(_ index: Int) -> Int {
    var (rest, at) = (index, 0)
    for axis in shape.indices.reversed() {
      at += rest % shape[axis].intValue * strides[axis].intValue
      rest /= shape[axis].intValue
    }
    return at
  }

  /// All elements, densely.
  var floats: [Float] {
    get {
      (0..<count).map { i in
        switch dataType {
        case .float16: return Float(memory.load(fromByteOffset: place(i) * 2, as: Float16.self))
        case .float32: return memory.load(fromByteOffset: place(i) * 4, as: Float.self)
        case .double: return Float(memory.load(fromByteOffset: place(i) * 8, as: Double.self))
        case .int32: return Float(memory.load(fromByteOffset: place(i) * 4, as: Int32.self))
        }
      }
    }
    set {
      for (i, value) in newValue.enumerated() {
        switch dataType {
        case .float16: memory.storeBytes(of: Float16(value), toByteOffset: place(i) * 2, as: Float16.self)
        case .float32: memory.storeBytes(of: value, toByteOffset: place(i) * 4, as: Float.self)
        case .double: memory.storeBytes(of: Double(value), toByteOffset: place(i) * 8, as: Double.self)
        case .int32: memory.storeBytes(of: Int32(value), toByteOffset: place(i) * 4, as: Int32.self)
        }
      }
    }
  }
}

public final class MLFeatureValue {
  public let multiArrayValue: MLMultiArray?
  public init(multiArray: MLMultiArray) { multiArrayValue = multiArray }
}

public protocol MLFeatureProvider: AnyObject {
  var featureNames: Set<String> { get }
  func featureValue(for featureName: String) -> MLFeatureValue?
}

final class Outputs: MLFeatureProvider {
  var values: [String: MLFeatureValue] = [:]
  var featureNames: Set<String> { Set(values.keys) }
  func featureValue(for featureName: String) -> MLFeatureValue? { values[featureName] }
}

public final class MLMultiArrayConstraint {
  public let shape: [NSNumber]
  public let dataType: MLMultiArrayDataType
  init(_ shape: [Int], _ type: MLMultiArrayDataType) {
    self.shape = shape.map { NSNumber(value: $0) }
    dataType = type
  }
}

public final class MLFeatureDescription {
  public let name: String
  public let multiArrayConstraint: MLMultiArrayConstraint?
  let shape: [Int]
  let type: MLMultiArrayDataType
  init(_ name: String, _ shape: [Int], _ type: MLMultiArrayDataType, isState: Bool) {
    self.name = name
    self.shape = shape
    self.type = type
    multiArrayConstraint = isState ? nil : MLMultiArrayConstraint(shape, type)
  }
}

public final class MLModelDescription {
  public internal(set) var inputDescriptionsByName: [String: MLFeatureDescription] = [:]
  public internal(set) var outputDescriptionsByName: [String: MLFeatureDescription] = [:]
  public internal(set) var stateDescriptionsByName: [String: MLFeatureDescription] = [:]
}
