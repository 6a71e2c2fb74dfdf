import Foundation

/// The tables of a bundle that become the first stage's input: a row for each token, and, where the model has them, a
/// row for each position and the row of token type 0. The files are mapped, not read.
struct EmbeddingRows {
  private struct Rows {
    let data: Data
    let offset, first, count: Int
    let isInt8: Bool
    let halfScales: Int?  // int8 inside a head: where its fp16 scales are, in the same file
    let floatScales: Data?  // int8 by itself: fp32 scales
  }

  private let hidden, vocabulary: Int
  private let scale, streamScale: Float
  private let tokens: [Rows]
  private let positions, types: Rows?

  init(_ info: BundleInfo, in folder: URL) throws {
    hidden = info.model.hidden
    vocabulary = info.model.vocab
    scale = Float(info.embedding.scale)
    streamScale = Float(info.choices?.residualScale ?? 1)
    let embedding = info.embedding
    let width = hidden
    tokens = try embedding.tokens.parts.map { parts in
      try parts.map {
        Rows(
          data: try Self.map($0.file, folder), offset: $0.offset, first: $0.firstRow, count: $0.rows,
          isInt8: try Self.isInt8(embedding.tokens), halfScales: $0.scales, floatScales: nil)
      }
    } ?? [try Self.whole(embedding.tokens, 0, folder)]
    positions = try embedding.positions.map { try Self.whole($0, -($0.first ?? 0), folder) }
    types = try embedding.types.map { try Self.whole($0, 0, folder) }
    for rows in tokens + [positions, types].compactMap({ $0 }) { try Self.check(rows, width) }
  }

  private static func map(_ name: String, _ folder: URL) throws -> Data {
    do {
      return try Data(contentsOf: folder.appendingPathComponent(name), options: .alwaysMapped)
    } catch {
      throw AnemoneError.damaged("the embedding table '\(name)' cannot be read: \(error.localizedDescription)")
    }
  }

  private static func isInt8(_ table: BundleInfo.Table) throws -> Bool {
    guard table.dtype == "int8" || table.dtype == "fp16" else {
      throw AnemoneError.unsupported("an embedding of the type '\(table.dtype)'")
    }
    return table.dtype == "int8"
  }

  private static func whole(_ table: BundleInfo.Table, _ first: Int, _ folder: URL) throws -> Rows {
    guard let file = table.file else { throw AnemoneError.damaged("bundle.json names no embedding table") }
    return Rows(
      data: try map(file, folder), offset: 0, first: first, count: table.rows, isInt8: try isInt8(table),
      halfScales: nil, floatScales: try table.scales.map { try map($0, folder) })
  }

  /// No row reaches behind the end of its file.
  private static func check(_ rows: Rows, _ hidden: Int) throws {
    let bytes = rows.count * hidden * (rows.isInt8 ? 1 : 2)
    let scalesFit =
      !rows.isInt8 || rows.halfScales.map { $0 >= 0 && $0 + rows.count * 2 <= rows.data.count }
        ?? rows.floatScales.map { $0.count >= rows.count * 4 } ?? false
    guard rows.offset >= 0, rows.count >= 0, rows.offset + bytes <= rows.data.count, scalesFit else {
      throw AnemoneError.damaged("the embedding is not where bundle.json says: convert the model again")
    }
  }

  /// Adds row `index` of the table, times `factor`, to `out`; false where there is no such row.
  private func add(_ rows: Rows, _ index: Int, _ factor: Float, to out: inout [Float]) -> Bool {
    let row = index - rows.first
    guard row >= 0, row < rows.count else { return false }
    rows.data.withUnsafeBytes { bytes in
      var scale: Float = 1
      if let at = rows.halfScales {
        scale = Float(bytes.loadUnaligned(fromByteOffset: at + row * 2, as: Float16.self))
      } else if let scales = rows.floatScales {
        scale = scales.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: row * 4, as: Float.self) }
      }
      for i in 0..<hidden {
        let at = row * hidden + i
        let value =
          rows.isInt8
          ? scale * Float(bytes.loadUnaligned(fromByteOffset: rows.offset + at, as: Int8.self))
          : Float(bytes.loadUnaligned(fromByteOffset: rows.offset + at * 2, as: Float16.self))
        out[i] += value * factor
      }
    }
    return true
  }

  /// What the first stage takes for a token.
  func read(_ id: Int, at position: Int, into out: inout [Float]) throws {
    for i in 0..<hidden { out[i] = 0 }
    guard tokens.contains(where: { add($0, id, scale, to: &out) }) else { throw AnemoneError.unknownToken(id) }
    if let positions, !add(positions, position, streamScale, to: &out) {
      throw AnemoneError.contextFull(tokens: position + 1, context: positions.count + positions.first)
    }
    if let types { _ = add(types, 0, streamScale, to: &out) }
  }
}
