import CoreML
import Foundation

/// The half-precision numbers of an array of four dimensions, where they lie. Core ML pads rows, so every place goes
/// through the strides.
struct Halves {
  let base: UnsafeMutablePointer<Float16>
  let shape, strides: [Int]

  func at(_ a: Int, _ b: Int, _ c: Int, _ d: Int) -> UnsafeMutablePointer<Float16> {
    base + (a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3])
  }

  func clear() { forEachRow { row in fill(row, shape[3], 0) } }

  /// `count` numbers along the last dimension.
  func fill(_ start: UnsafeMutablePointer<Float16>, _ count: Int, _ value: Float16) {
    for i in 0..<max(0, count) { start[i * strides[3]] = value }
  }

  func forEachRow(_ body: (UnsafeMutablePointer<Float16>) -> Void) {
    for a in 0..<shape[0] { for b in 0..<shape[1] { for c in 0..<shape[2] { body(at(a, b, c, 0)) } } }
  }

  /// Takes the numbers of another array, as far as both reach: caches of two lengths differ in the third dimension.
  func copy(from other: Halves) {
    let count = zip(shape, other.shape).map { min($0, $1) }
    for a in 0..<count[0] {
      for b in 0..<count[1] {
        for c in 0..<count[2] {
          let (to, from) = (at(a, b, c, 0), other.at(a, b, c, 0))
          for d in 0..<count[3] { to[d * strides[3]] = from[d * other.strides[3]] }
        }
      }
    }
  }
}

extension MLMultiArray {
  static func halves(_ shape: [Int]) throws -> MLMultiArray {
    try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: .float16)
  }

  var sizes: [Int] { shape.map { $0.intValue } }

  private func expectHalves(_ name: String) throws {
    guard dataType == .float16, shape.count == 4 else {
      throw AnemoneError.damaged(
        "'\(name)' is no array of half precision with four dimensions: convert the model again")
    }
  }

  /// For filling.
  func withHalves<R>(_ name: String, _ body: (Halves) throws -> R) throws -> R {
    try expectHalves(name)
    let shape = sizes
    return try withUnsafeMutableBytes { bytes, strides in
      guard let base = bytes.baseAddress else { throw AnemoneError.coreML("'\(name)' has no memory") }
      return try body(
        Halves(base: base.assumingMemoryBound(to: Float16.self), shape: shape, strides: strides))
    }
  }

  /// For reading.
  func readHalves<R>(_ name: String, _ body: (Halves) throws -> R) throws -> R {
    try expectHalves(name)
    let (shape, strides) = (sizes, self.strides.map { $0.intValue })
    return try withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { throw AnemoneError.coreML("'\(name)' has no memory") }
      let numbers = UnsafeMutablePointer(mutating: base.assumingMemoryBound(to: Float16.self))
      return try body(Halves(base: numbers, shape: shape, strides: strides))
    }
  }

  /// A dense copy.
  func copied(_ name: String) throws -> MLMultiArray {
    let out = try MLMultiArray.halves(sizes)
    try readHalves(name) { from in try out.withHalves(name) { $0.copy(from: from) } }
    return out
  }
}

extension MLState {
  /// A state's array, which is only there inside of the body. Core ML's own closure need not pass errors on.
  func withArray<R>(_ name: String, _ body: (MLMultiArray) throws -> R) throws -> R {
    var result: Result<R, Error>?
    withMultiArray(for: name) { array in result = Result { try body(array) } }
    guard let result else { throw AnemoneError.coreML("Core ML gave no array for the state '\(name)'") }
    return try result.get()
  }
}
