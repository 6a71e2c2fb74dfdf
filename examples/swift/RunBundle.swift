// Runs a bundle of `anemone convert` with Core ML alone, as docs/bundle.md says. macOS 15 or newer, Apple silicon:
//     swiftc -O -parse-as-library RunBundle.swift -o runbundle
//     ./runbundle demo 0 1439 821 262 796        ids in (`anemone tokenize --add-special`), the ids that follow out
// It takes one token at a time, and the longest of the compiled lengths, in bundles that write text and keep their own
// cache (--kv state, or packed where no layer is recurrent).
import CoreML
import Foundation

// What it needs of bundle.json. Keys that it leaves out are not decoded.
struct BundleInfo: Decodable {
  struct Model: Decodable { let hidden: Int }
  struct Part: Decodable { let file: String; let offset, firstRow, rows: Int; let scales: Int? }
  struct Tokens: Decodable {
    let dtype: String
    let rows: Int
    let file, scales: String?  // a table of its own …
    let parts: [Part]?  // … or rows inside the head's weights
  }
  struct Embedding: Decodable { let scale: Double; let tokens: Tokens }
  struct Rope: Decodable {
    let frequencies: [Double]
    let longFrequencies: [Double]?
    let originalContext: Int?
    let attentionFactor: Double
  }
  struct Mask: Decodable { let reach: String; let size: Int? }
  struct Special: Decodable { let eos: [Int] }
  // An input, an output or a state. The role says what it is for; the name is only what Core ML calls it.
  struct Port: Decodable {
    let name, role: String
    let rope, mask: Int?  // which of `ropes`, of `masks`
    let rows: [Int]?  // of logits: [first, last) of the vocabulary
  }
  struct Function: Decodable {
    let name: String
    let tokens: [Int]  // [least, most]
    let context: Int?
    let inputs, outputs: [Port]
  }
  struct Stage: Decodable { let package: String; let kind: String?; let functions: [Function] }

  let model: Model
  let embedding: Embedding
  let ropes: [Rope]
  let masks: [Mask]
  let tokens: Special
  let stages: [Stage]
}

// Read first: the rest of the file means something else in other versions.
struct BundleHeader: Decodable {
  let format: String
  let version: Int
  let kind: String?
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
  let function: BundleInfo.Function
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
    let header = try decoder.decode(BundleHeader.self, from: json)
    guard header.format == "anemone-bundle", header.version == 2 else {
      throw Failure("not a bundle of version 2: convert the model again")
    }
    guard header.kind == "generate" else { throw Failure("this bundle does not write text") }
    let info = try decoder.decode(BundleInfo.self, from: json)
    bundle = info
    func mapped(_ name: String) throws -> Data {
      try Data(contentsOf: folder.appendingPathComponent(name), options: .alwaysMapped)
    }
    let rows = info.embedding.tokens
    if let file = rows.file {
      let scales = try rows.scales.map(mapped)
      tables = [
        Table(
          data: try mapped(file), offset: 0, firstRow: 0, rows: rows.rows, halfScales: nil,
          floatScales: scales)
      ]
    } else {
      tables = try (rows.parts ?? []).map {
        Table(
          data: try mapped($0.file), offset: $0.offset, firstRow: $0.firstRow, rows: $0.rows,
          halfScales: $0.scales, floatScales: nil)
      }
    }
    context = info.stages.flatMap { $0.functions }.compactMap { $0.context }.max() ?? 0
    useLongRope = positions > (info.ropes.compactMap { $0.originalContext }.first ?? Int.max)
    for stage in info.stages {
      // The host would have to choose experts: docs/bundle.md.
      if let kind = stage.kind, kind != "run" {
        throw Failure("this program has no stages of the kind \(kind); convert with --experts all")
      }
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
    return LoadedStage(function: function, model: model, state: model.makeState())
  }

  // The row of a token, as the first stage takes it.
  private func embedding(_ id: Int) throws -> MLMultiArray {
    let hidden = bundle.model.hidden
    guard let table = tables.first(where: { $0.firstRow <= id && id < $0.firstRow + $0.rows }) else {
      throw Failure("\(id) is not in the vocabulary")
    }
    let row = id - table.firstRow
    let isInt8 = bundle.embedding.tokens.dtype == "int8"
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

  // An input that is the host's to fill, for one token at `position`.
  private func makeInput(_ port: BundleInfo.Port, _ id: Int) throws -> MLMultiArray {
    let at = position
    switch port.role {
    case "stream":
      return try embedding(id)
    case "cos", "sin":
      let rope = bundle.ropes[port.rope ?? 0]
      let frequencies = useLongRope ? rope.longFrequencies ?? rope.frequencies : rope.frequencies
      let isCosine = port.role == "cos"
      return try makeArray([1, 1, 1, frequencies.count]) { i in
        let angle = Double(at) * frequencies[i]
        return Float((isCosine ? Foundation.cos(angle) : Foundation.sin(angle)) * rope.attentionFactor)
      }
    case "mask":
      let mask = bundle.masks[port.mask ?? 0]
      guard mask.reach == "causal" || mask.reach == "window" else {
        throw Failure("masks of the reach '\(mask.reach)' are for texts that are seen whole")
      }
      let window = mask.reach == "window" ? mask.size ?? Int.max : Int.max
      return try makeArray([1, 1, 1, context]) { j in j <= at && at - j < window ? 0 : -10000 }
    case "write":
      return try makeArray([1, 1, context, 1]) { $0 == at ? 1 : 0 }
    case "position":
      let row = try MLMultiArray(shape: [1], dataType: .int32)
      row[0] = NSNumber(value: at)
      return row
    case "keys", "values", "recurrent":
      throw Failure("the host keeps '\(port.name)' of this bundle: convert with --kv state")
    default:
      throw Failure("the input '\(port.name)' has the role '\(port.role)', which this program does not know")
    }
  }

  // Appends a token; the best id to follow it.
  func next(after id: Int) throws -> Int {
    guard position < context else { throw Failure("the context of \(context) positions is full") }
    var best = (value: -Float.infinity, id: -1)
    var handed: [String: MLMultiArray] = [:]  // what the last stage gave, by role
    for loaded in stages {
      try autoreleasepool {
        var inputs: [String: MLMultiArray] = [:]
        for port in loaded.function.inputs {
          if let last = handed[port.role] {
            inputs[port.name] = last
          } else {
            inputs[port.name] = try makeInput(port, id)
          }
        }
        let provider = try MLDictionaryFeatureProvider(dictionary: inputs)
        let output = try loaded.model.prediction(from: provider, using: loaded.state)
        look(at: loaded.function.outputs, in: output, &best)
        for port in loaded.function.outputs where port.role == "stream" || port.role == "carried" {
          handed[port.role] = output.featureValue(for: port.name)?.multiArrayValue
        }
      }
    }
    position += 1
    guard best.id >= 0 else { throw Failure("the bundle gave no logits") }
    return best.id
  }

  // The best of the logits that a stage gave; the first of equal ones stays.
  private func look(
    at ports: [BundleInfo.Port], in output: MLFeatureProvider, _ best: inout (value: Float, id: Int)
  ) {
    func values(_ port: BundleInfo.Port) -> [Float] {
      output.featureValue(for: port.name)?.multiArrayValue.map(numbers) ?? []
    }
    for port in ports {
      guard let first = port.rows?.first else { continue }
      switch port.role {
      case "logits":
        for (row, value) in values(port).enumerated() where value > best.value { best = (value, first + row) }
      case "best":
        // The row stands in two more outputs for the same rows.
        func part(_ role: String) -> Int? {
          ports.first { $0.role == role && $0.rows?.first == first }.flatMap { values($0).first }.map { Int($0) }
        }
        if let value = values(port).first, value > best.value,
          let high = part("best_high"), let low = part("best_low")
        {
          best = (value, first + high * 128 + low)
        }
      default:
        break
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
