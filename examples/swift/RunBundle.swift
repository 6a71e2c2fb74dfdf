// Runs a bundle of `anemone convert` with Core ML alone, as docs/bundle.md describes it. macOS 15 or newer, Apple silicon:
//     swiftc -O -parse-as-library RunBundle.swift -o runbundle
//     ./runbundle demo 0 1439 821 262 796        ids in (`anemone tokenize --add-special`), the ids that follow out
// It takes one token at a time, and the longest of the compiled lengths. Bundles with --kv io are left out.
import CoreML
import Foundation

// What it needs of bundle.json.
struct BundleInfo: Decodable {
  struct Model: Decodable { let hidden, vocab: Int }
  struct Choices: Decodable { let kv, kvWrite: String; let argmax: Bool }
  struct Part: Decodable { let file: String; let offset, firstRow, rows: Int; let scales: Int? }
  struct Embedding: Decodable {
    let dtype: String
    let scale: Double
    let file, scales: String?  // a table of its own …
    let parts: [Part]?  // … or rows inside the head's weights
  }
  struct Rope: Decodable {
    let cos, sin: String
    let frequencies: [Double]
    let longFrequencies: [Double]?
    let originalContext: Int?
    let attentionFactor: Double
  }
  struct Mask: Decodable { let name: String; let window: Int }
  struct Tokens: Decodable { let eos: [Int] }
  struct Function: Decodable { let name: String; let tokens: [Int]; let context: Int? }
  struct Piece: Decodable { let firstRow, rows: Int; let logits, best, high, low: String? }
  struct Stage: Decodable { let kind, package: String; let functions: [Function]; let pieces: [Piece]? }

  let format: String
  let version: Int
  let model: Model
  let choices: Choices
  let embedding: Embedding
  let ropes: [Rope]
  let masks: [Mask]
  let tokens: Tokens
  let stages: [Stage]
}

struct Failure: Error, CustomStringConvertible {
  let description: String
  init(_ text: String) { description = text }
}

// Rows of the embedding in a mapped file.
struct Table {
  let data: Data
  let offset, firstRow, rows: Int
  let halfScales: Int?  // int8 inside a head: offset of its fp16 scales, in the same file
  let floatScales: Data?  // int8 by itself: fp32 scales
}

// A package's function, loaded, with the state of one text.
struct LoadedStage {
  let stage: BundleInfo.Stage
  let model: MLModel
  let state: MLState
}

// Half-precision numbers in a Core ML array, by their place in the dense array. Core ML may pad rows, so every
// place goes through the strides.
func makeArray(_ shape: [Int], _ fill: (Int) -> Float) throws -> MLMultiArray {
  let array = try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: .float16)
  array.withUnsafeMutableBytes { bytes, strides in
    let numbers = bytes.bindMemory(to: Float16.self)
    for i in 0..<shape.reduce(1, *) { numbers[place(i, shape, strides)] = Float16(fill(i)) }
  }
  return array
}

func place(_ index: Int, _ shape: [Int], _ strides: [Int]) -> Int {
  var rest = index
  var at = 0
  for axis in stride(from: shape.count - 1, through: 0, by: -1) {
    at += rest % shape[axis] * strides[axis]
    rest /= shape[axis]
  }
  return at
}

func numbers(_ array: MLMultiArray) -> [Float] {
  let shape = array.shape.map { $0.intValue }
  let strides = array.strides.map { $0.intValue }
  return array.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> [Float] in
    let halves = bytes.bindMemory(to: Float16.self)
    return (0..<shape.reduce(1, *)).map { Float(halves[place($0, shape, strides)]) }
  }
}

final class Runner {
  let bundle: BundleInfo
  let context: Int
  let tables: [Table]
  var stages: [LoadedStage] = []
  var position = 0
  let useLongRope: Bool

  init(folder: URL, positions: Int) async throws {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    let json = try Data(contentsOf: folder.appendingPathComponent("bundle.json"))
    let info = try decoder.decode(BundleInfo.self, from: json)
    guard info.format == "anemone-bundle", info.version == 1 else { throw Failure("another kind of bundle") }
    guard info.choices.kv != "io" else { throw Failure("a bundle with --kv io: its host keeps the cache") }
    bundle = info
    func mapped(_ name: String) throws -> Data {
      try Data(contentsOf: folder.appendingPathComponent(name), options: .alwaysMapped)
    }
    if let file = info.embedding.file {
      let scales = try info.embedding.scales.map(mapped)
      tables = [
        Table(
          data: try mapped(file), offset: 0, firstRow: 0, rows: info.model.vocab, halfScales: nil,
          floatScales: scales)
      ]
    } else {
      tables = try (info.embedding.parts ?? []).map {
        Table(
          data: try mapped($0.file), offset: $0.offset, firstRow: $0.firstRow, rows: $0.rows,
          halfScales: $0.scales, floatScales: nil)
      }
    }
    context = info.stages.flatMap { $0.functions }.compactMap { $0.context }.max() ?? 0
    useLongRope = positions > (info.ropes.compactMap { $0.originalContext }.first ?? Int.max)
    for stage in info.stages {
      let loaded = try await load(stage, from: folder)
      stages.append(loaded)
    }
  }

  // The function for one token; compiled once and kept beside the package, since Core ML's own place is temporary.
  private func load(_ stage: BundleInfo.Stage, from folder: URL) async throws -> LoadedStage {
    let package = folder.appendingPathComponent(stage.package)
    let compiled = package.deletingPathExtension().appendingPathExtension("mlmodelc")
    if !FileManager.default.fileExists(atPath: compiled.path) {
      let made = try await MLModel.compileModel(at: package)
      try FileManager.default.moveItem(at: made, to: compiled)
    }
    let fits = stage.functions.first { $0.tokens[0] == 1 && ($0.context ?? context) == context }
    guard let function = fits else { throw Failure("\(stage.package) has no function for one token") }
    let configuration = MLModelConfiguration()
    configuration.computeUnits = .cpuAndNeuralEngine
    configuration.modelDisplayName = stage.package
    if stage.functions.count > 1 { configuration.functionName = function.name }
    let model = try await MLModel.load(contentsOf: compiled, configuration: configuration)
    return LoadedStage(stage: stage, model: model, state: model.makeState())
  }

  // The row of a token, as the first stage takes it.
  private func embedding(_ id: Int) throws -> MLMultiArray {
    let hidden = bundle.model.hidden
    guard let table = tables.first(where: { $0.firstRow <= id && id < $0.firstRow + $0.rows }) else {
      throw Failure("\(id) is not in the vocabulary")
    }
    let row = id - table.firstRow
    let isInt8 = bundle.embedding.dtype == "int8"
    var factor = Float(bundle.embedding.scale)
    return try table.data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) throws -> MLMultiArray in
      if let scales = table.halfScales {
        factor *= Float(bytes.loadUnaligned(fromByteOffset: scales + row * 2, as: Float16.self))
      }
      if let scales = table.floatScales {
        factor *= scales.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: row * 4, as: Float.self) }
      }
      return try makeArray([1, hidden, 1, 1]) { column in
        let index = row * hidden + column
        return isInt8
          ? Float(bytes.loadUnaligned(fromByteOffset: table.offset + index, as: Int8.self)) * factor
          : Float(bytes.loadUnaligned(fromByteOffset: table.offset + index * 2, as: Float16.self)) * factor
      }
    }
  }

  // Everything but x: the same for all layer stages of a call.
  private func commonInputs() throws -> [String: MLMultiArray] {
    var inputs: [String: MLMultiArray] = [:]
    for rope in bundle.ropes {
      let frequencies = useLongRope ? rope.longFrequencies ?? rope.frequencies : rope.frequencies
      let shape = [1, 1, 1, frequencies.count]
      let at = Double(position)
      inputs[rope.cos] = try makeArray(shape) { Float(Foundation.cos(at * frequencies[$0]) * rope.attentionFactor) }
      inputs[rope.sin] = try makeArray(shape) { Float(Foundation.sin(at * frequencies[$0]) * rope.attentionFactor) }
    }
    for mask in bundle.masks {
      inputs[mask.name] = try makeArray([1, 1, 1, context]) { j in
        j <= self.position && (mask.window == 0 || self.position - j < mask.window) ? 0 : -10000
      }
    }
    if bundle.choices.kvWrite == "mask" {
      inputs["write"] = try makeArray([1, 1, context, 1]) { $0 == self.position ? 1 : 0 }
    } else {
      let row = try MLMultiArray(shape: [1], dataType: .int32)
      row[0] = NSNumber(value: position)
      inputs["position"] = row
    }
    return inputs
  }

  // Appends a token; the best id to follow it.
  func next(after id: Int) throws -> Int {
    guard position < context else { throw Failure("the context of \(context) positions is full") }
    var inputs = try commonInputs()
    inputs["x"] = try embedding(id)
    var best = (value: -Float.infinity, id: -1)
    var last: MLMultiArray?
    for loaded in stages {
      try autoreleasepool {
        let isHead = loaded.stage.kind == "head"
        let given: [String: MLMultiArray] = isHead ? ["y": last!] : inputs
        // A package declares what its own layers use, and no more may be given.
        let wanted = loaded.model.modelDescription.inputDescriptionsByName
        let provider = try MLDictionaryFeatureProvider(dictionary: given.filter { wanted[$0.key] != nil })
        let output: MLFeatureProvider
        if isHead {
          output = try loaded.model.prediction(from: provider)
        } else {
          output = try loaded.model.prediction(from: provider, using: loaded.state)
        }
        for piece in loaded.stage.pieces ?? [] { look(at: piece, in: output, &best) }
        if let y = output.featureValue(for: "y")?.multiArrayValue {
          last = y
          inputs["x"] = y
        }
      }
    }
    position += 1
    guard best.id >= 0 else { throw Failure("the bundle gave no logits") }
    return best.id
  }

  private func look(at piece: BundleInfo.Piece, in output: MLFeatureProvider, _ best: inout (value: Float, id: Int)) {
    func values(_ name: String?) -> [Float] {
      name.flatMap { output.featureValue(for: $0)?.multiArrayValue }.map(numbers) ?? []
    }
    if bundle.choices.argmax {
      let (value, high, low) = (values(piece.best), values(piece.high), values(piece.low))
      if let v = value.first, let h = high.first, let l = low.first, v > best.value {
        best = (v, piece.firstRow + Int(h) * 128 + Int(l))
      }
    } else {
      for (row, value) in values(piece.logits).enumerated() where value > best.value {
        best = (value, piece.firstRow + row)
      }
    }
  }
}

@main
struct RunBundle {
  static func main() async {
    do {
      let arguments = CommandLine.arguments.dropFirst()
      let ids = arguments.dropFirst().compactMap { Int($0) }
      guard let folder = arguments.first, !ids.isEmpty, ids.count == arguments.count - 1 else {
        throw Failure("usage: runbundle BUNDLE ID [ID …]")
      }
      let most = 40
      let runner = try await Runner(folder: URL(fileURLWithPath: folder), positions: ids.count + most)
      try generate(runner, ids, most)
    } catch {
      FileHandle.standardError.write(Data("error: \(error)\n".utf8))
      exit(2)
    }
  }

  // Not async: Core ML's synchronous predictions are meant.
  static func generate(_ runner: Runner, _ ids: [Int], _ most: Int) throws {
    var following = 0
    for id in ids { following = try runner.next(after: id) }
    for _ in 0..<most where runner.position < runner.context {
      if runner.bundle.tokens.eos.contains(following) { break }
      print(following, terminator: " ")
      following = try runner.next(after: following)
    }
    print()
  }
}
