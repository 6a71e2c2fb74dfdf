import CoreML
import Foundation

/// Tokens that go through the stages together. Columns behind the last token are padding, which repeats it.
struct Pass {
  let ids: [Int32]
  let position: Int  // of the first
  var width: Int  // columns, padding included
  let context: Int  // rows of the cache
  let useLongRope: Bool

  func token(_ column: Int) -> Int { min(column, ids.count - 1) }
}

/// The inputs that the host fills, by their roles (docs/bundle.md, "Roles"). Arrays are made once and filled anew.
final class InputFiller {
  private struct Place: Hashable { let key: RoleKey; let width, context: Int }

  private let info: BundleInfo
  private let embedding: EmbeddingRows
  private var arrays: [Place: MLMultiArray] = [:]
  private var row: [Float]
  private static let maskedOut = Float16(-10000)

  init(_ info: BundleInfo, _ embedding: EmbeddingRows) {
    self.info = info
    self.embedding = embedding
    row = [Float](repeating: 0, count: info.model.hidden)
  }

  /// The input for this pass. `declared`: the shape that the package names for it.
  func fill(_ port: BundleInfo.Port, _ pass: Pass, declared: [Int]) throws -> MLMultiArray {
    let place = Place(key: port.key, width: pass.width, context: pass.context)
    if port.role == "position" {
      let array = try arrays[place] ?? MLMultiArray(shape: [1], dataType: .int32)
      arrays[place] = array
      array.withUnsafeMutableBytes { bytes, _ in
        bytes.storeBytes(of: Int32(pass.position), as: Int32.self)
      }
      return array
    }
    let array = try arrays[place] ?? MLMultiArray.halves(try shape(port, pass, declared))
    arrays[place] = array
    try array.withHalves(port.name) { try fill($0, port, pass) }
    return array
  }

  private func shape(_ port: BundleInfo.Port, _ pass: Pass, _ declared: [Int]) throws -> [Int] {
    switch port.role {
    case "stream": return [1, info.model.hidden, pass.width, 1]
    case "cos", "sin": return [1, 1, pass.width, info.ropes[port.rope ?? 0].frequencies.count]
    case "mask": return [1, 1, pass.width, pass.context]
    case "write": return [1, 1, pass.context, pass.width]
    case "advance":
      // Bundles that were written before there could be several do not say for how many columns it is.
      guard let columns = port.columns ?? (declared.count == 4 ? declared[2] : nil), columns > 0 else { break }
      return [1, 1, columns, columns + pass.width]
    default: break
    }
    throw AnemoneError.unsupported("the input '\(port.name)' of the role '\(port.role)' is not the host's to fill")
  }

  private func fill(_ out: Halves, _ port: BundleInfo.Port, _ pass: Pass) throws {
    switch port.role {
    case "stream": try fillStream(out, pass)
    case "cos", "sin": fillRope(out, info.ropes[port.rope ?? 0], port.role == "cos", pass)
    case "mask": fillMask(out, info.masks[port.mask ?? 0], pass)
    case "write":
      out.clear()
      for t in 0..<pass.ids.count { out.at(0, 0, pass.position + t, t).pointee = 1 }
    default:  // advance: of the old columns and the new tokens, in a row, the last real ones stay
      out.clear()
      for r in 0..<out.shape[2] { out.at(0, 0, r, r + pass.ids.count).pointee = 1 }
    }
  }

  private func fillStream(_ out: Halves, _ pass: Pass) throws {
    for t in 0..<pass.width {
      let token = pass.token(t)
      if token == t { try embedding.read(Int(pass.ids[t]), at: pass.position + t, into: &row) }
      for c in 0..<row.count { out.at(0, c, t, 0).pointee = Float16(row[c]) }
    }
  }

  private func fillRope(_ out: Halves, _ rope: BundleInfo.Rope, _ isCosine: Bool, _ pass: Pass) {
    let frequencies = pass.useLongRope ? rope.longFrequencies ?? rope.frequencies : rope.frequencies
    for t in 0..<pass.width {
      let position = Double(pass.position + pass.token(t))
      for (i, frequency) in frequencies.enumerated() {
        let turn = isCosine ? cos(position * frequency) : sin(position * frequency)
        out.at(0, 0, t, i).pointee = Float16(Float(turn * rope.attentionFactor))
      }
    }
  }

  private func fillMask(_ out: Halves, _ mask: BundleInfo.Mask, _ pass: Pass) {
    for t in 0..<pass.width {
      let at = pass.position + pass.token(t)
      let first = mask.reach == "window" ? max(0, at + 1 - (mask.size ?? at + 1)) : 0
      out.fill(out.at(0, 0, t, 0), first, Self.maskedOut)
      out.fill(out.at(0, 0, t, first), at + 1 - first, 0)
      out.fill(out.at(0, 0, t, 0) + (at + 1) * out.strides[3], pass.context - at - 1, Self.maskedOut)
    }
  }
}

/// What a prediction takes: values by name.
final class Features: MLFeatureProvider {
  private var values: [String: MLFeatureValue] = [:]

  var featureNames: Set<String> { Set(values.keys) }
  func featureValue(for featureName: String) -> MLFeatureValue? { values[featureName] }
  func set(_ name: String, _ array: MLMultiArray) { values[name] = MLFeatureValue(multiArray: array) }
}
