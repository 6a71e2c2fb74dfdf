import Foundation

/// bundle.json, as far as it is needed to run a bundle. Keys that are left out here are not decoded. docs/bundle.md
/// explains all of them.
struct BundleInfo: Decodable {
  struct Model: Decodable { let hidden, vocab: Int }
  struct Source: Decodable { let name: String? }
  struct Choices: Decodable { let residualScale: Double? }
  struct Part: Decodable { let file: String; let offset, firstRow, rows: Int; let scales: Int? }
  struct Table: Decodable {
    let dtype: String
    let rows: Int
    let file, scales: String?  // a table of its own …
    let parts: [Part]?  // … or rows inside the head's weights
    let first: Int?  // of positions: the row of position 0
  }
  struct Embedding: Decodable { let scale: Double; let tokens: Table; let positions, types: Table? }
  struct Rope: Decodable {
    let frequencies: [Double]
    let longFrequencies: [Double]?
    let originalContext: Int?
    let attentionFactor: Double
  }
  struct Mask: Decodable { let reach: String; let size: Int? }
  struct Tokens: Decodable { let eos: [Int]; let tokenizer: String? }
  /// An input, an output or a state. The role says what it is for; the name is only what Core ML calls it.
  struct Port: Decodable {
    let name, role: String
    let rope, mask, columns, slot: Int?
    let layers: [Int]?
    let rows: [Int]?  // of logits: [first, last) of the vocabulary
  }
  struct Function: Decodable {
    let name: String
    let tokens: [Int]  // [least, most]
    let context: Int?
    let variants: [String]?  // absent: of every variant
    let inputs, outputs: [Port]
    let states: [Port]?
  }
  struct Stage: Decodable {
    let package: String
    let kind: String?
    let layers: [Int]?
    var functions: [Function]
  }
  struct Variant: Decodable { let name: String }
  struct File: Decodable { let path: String; let bytes: Int; let xxh3: String }

  let source: Source?
  let model: Model
  let choices: Choices?
  let embedding: Embedding
  let ropes: [Rope]
  let masks: [Mask]
  let tokens: Tokens
  var stages: [Stage]
  let variants: [Variant]?
  let files: [File]
  /// How many functions each package has, those of other variants included.
  private(set) var functionCounts: [String: Int] = [:]

  private enum CodingKeys: CodingKey {
    case source, model, choices, embedding, ropes, masks, tokens, stages, variants, files
  }
}

/// What a port is for. Two ports with the same key mean the same thing.
struct RoleKey: Hashable {
  let role: String
  let index: Int  // which rope, mask or number of columns
  let layers: [Int]
  let slot: Int
}

extension BundleInfo.Port {
  var key: RoleKey { keyed(role) }
  /// What an output becomes for the next call: `new_keys` the `keys`; nil for what is no memory.
  var keptKey: RoleKey? {
    role == "new_keys" || role == "new_values" || role == "new_recurrent" ? keyed(String(role.dropFirst(4))) : nil
  }
  var isCache: Bool { role == "keys" || role == "values" }
  var isMemory: Bool { isCache || role == "recurrent" }

  private func keyed(_ role: String) -> RoleKey {
    RoleKey(role: role, index: rope ?? mask ?? columns ?? 0, layers: layers ?? [], slot: slot ?? 0)
  }
}

extension BundleInfo.Function {
  var least: Int { tokens[0] }
  var most: Int { tokens[1] }
}

extension BundleInfo.Stage {
  var hasLayers: Bool { layers.map { $0.count == 2 && $0[0] < $0[1] } ?? false }
  var hasHead: Bool { functions.contains { $0.outputs.contains { $0.role == "logits" || $0.role == "best" } } }
}

extension BundleInfo {
  /// Read first: the rest of the file means something else in other versions.
  private struct Header: Decodable {
    let format: String
    let version: Int
    let kind: String?
  }

  /// Reads and checks bundle.json; throws for a bundle that AnemoneKit cannot run, and says why.
  static func read(_ folder: URL) throws -> BundleInfo {
    let file = folder.appendingPathComponent("bundle.json")
    guard let json = try? Data(contentsOf: file) else {
      throw AnemoneError.notABundle("\(folder.path) is no bundle: it has no bundle.json")
    }
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    guard let header = try? decoder.decode(Header.self, from: json), header.format == "anemone-bundle" else {
      throw AnemoneError.notABundle("\(file.path) is not what `anemone convert` writes")
    }
    guard header.version == 2 else {
      throw AnemoneError.notABundle(
        "\(file.path) has the version \(header.version), and 2 is needed: convert the model again")
    }
    guard header.kind == "generate" else {
      throw AnemoneError.unsupported(
        "\(folder.path) is a bundle of the kind '\(header.kind ?? "?")'; AnemoneKit runs those that generate text")
    }
    var info: BundleInfo
    do {
      info = try decoder.decode(BundleInfo.self, from: json)
    } catch {
      throw AnemoneError.damaged("\(file.path) cannot be read: \(error)")
    }
    info.takeFirstVariant()
    try info.check(folder)
    return info
  }

  /// Of several ways to run the bundle the first is the default: its functions stay.
  private mutating func takeFirstVariant() {
    for stage in stages { functionCounts[stage.package, default: 0] += stage.functions.count }
    guard let variant = variants?.first?.name else { return }
    for i in stages.indices {
      stages[i].functions.removeAll { !($0.variants?.contains(variant) ?? true) }
    }
    stages.removeAll { $0.functions.isEmpty }
  }

  private static let inputRoles: Set = [
    "stream", "carried", "cos", "sin", "mask", "write", "position", "advance", "keys", "values", "recurrent",
  ]
  private static let outputRoles: Set = [
    "stream", "carried", "new_keys", "new_values", "new_recurrent", "logits", "best", "best_high", "best_low",
  ]

  private func check(_ folder: URL) throws {
    for stage in stages {
      if let kind = stage.kind, kind != "run" {
        throw AnemoneError.unsupported(
          "\(stage.package) is a stage of the kind '\(kind)', which AnemoneKit does not run: "
            + "convert with --experts all")
      }
      for function in stage.functions {
        guard function.tokens.count == 2, 1 <= function.least, function.least <= function.most else {
          throw AnemoneError.damaged("\(stage.package): the function '\(function.name)' takes no tokens")
        }
        try check(function.inputs, Self.inputRoles, stage)
        try check(function.outputs, Self.outputRoles, stage)
        try check(function.states ?? [], ["keys", "values", "recurrent"], stage)
      }
    }
    guard stages.contains(where: { $0.hasLayers }), stages.contains(where: { $0.hasHead }), !tiers.isEmpty else {
      throw AnemoneError.damaged("\(folder.path): bundle.json lists no layers with a cache, or no head")
    }
    for mask in masks where mask.reach != "causal" && mask.reach != "window" {
      throw AnemoneError.unsupported("a mask of the reach '\(mask.reach)' is for texts that are seen whole")
    }
    try checkFiles(folder)
  }

  private func check(_ ports: [Port], _ known: Set<String>, _ stage: Stage) throws {
    for port in ports {
      guard known.contains(port.role) else {
        throw AnemoneError.unsupported(
          "\(stage.package): '\(port.name)' has the role '\(port.role)', which this version does not know")
      }
      if port.rope.map({ !ropes.indices.contains($0) }) ?? (port.role == "cos" || port.role == "sin") {
        throw AnemoneError.damaged("\(stage.package): '\(port.name)' names no entry of the ropes")
      }
      if port.mask.map({ !masks.indices.contains($0) }) ?? (port.role == "mask") {
        throw AnemoneError.damaged("\(stage.package): '\(port.name)' names no entry of the masks")
      }
      if port.rows.map({ $0.count != 2 || $0[0] < 0 || $0[0] >= $0[1] || $0[1] > model.vocab })
        ?? (port.role == "logits" || port.role.hasPrefix("best"))
      {
        throw AnemoneError.damaged("\(stage.package): '\(port.name)' names no rows of the vocabulary")
      }
    }
  }

  /// A download that was cut short shows here, and not as a strange error of Core ML.
  private func checkFiles(_ folder: URL) throws {
    for file in files {
      let path = folder.appendingPathComponent(file.path).path
      guard let size = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? NSNumber else {
        throw AnemoneError.damaged("the file '\(file.path)' of the bundle is missing: copy the bundle again")
      }
      guard size.intValue == file.bytes else {
        throw AnemoneError.damaged(
          "the file '\(file.path)' has \(size) bytes, and \(file.bytes) when it was written: copy the bundle again")
      }
    }
  }

  /// The compiled lengths of the cache, ascending.
  var tiers: [Int] { Set(stages.flatMap { $0.functions.compactMap { $0.context } }).sorted() }

  var isRecurrent: Bool {
    stages.contains { stage in
      stage.functions.contains { ($0.inputs + ($0.states ?? [])).contains { $0.role == "recurrent" } }
    }
  }

  /// The heads give ids, and no logits.
  var givesOnlyBest: Bool {
    stages.contains { stage in stage.functions.contains { $0.outputs.contains { $0.role == "best" } } }
  }
}
