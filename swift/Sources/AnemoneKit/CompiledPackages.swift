import CoreML
import Foundation

/// Packages as Core ML's compiler leaves them, kept on disk. A compiled package is found by the hashes that bundle.json
/// has of its files and by the build of the system: an update of the system makes old ones useless.
///
///     <folder>/<build of the system>/<hash>.mlmodelc
struct CompiledPackages {
  let folder: URL
  private let build: URL

  /// `folder` nil: the app's caches.
  init(_ given: URL?) {
    folder =
      given
      ?? (FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        ?? URL(fileURLWithPath: NSTemporaryDirectory())).appendingPathComponent("AnemoneKit")
    let system = ProcessInfo.processInfo.operatingSystemVersionString  // "Version 15.4 (Build 24E248)"
    build = folder.appendingPathComponent(Self.hash(system))
  }

  /// Where the package is, or will be, compiled. One that an app brings along, beside the package, is taken as it is.
  func place(of package: String, in bundle: URL, _ info: BundleInfo) throws -> URL {
    let stem = (package as NSString).deletingPathExtension
    let beside = bundle.appendingPathComponent(stem).appendingPathExtension("mlmodelc")
    if FileManager.default.fileExists(atPath: beside.path) { return beside }
    let files = info.files.filter { $0.path.hasPrefix(package + "/") }.sorted { $0.path < $1.path }
    guard !files.isEmpty else { throw AnemoneError.damaged("bundle.json lists no files of \(package)") }
    let content = files.map { "\($0.path) \($0.bytes) \($0.xxh3)" }.joined(separator: "\n")
    return build.appendingPathComponent(Self.hash(content)).appendingPathExtension("mlmodelc")
  }

  /// Compiles a package to that place. Core ML leaves the result in a temporary folder, which the system empties.
  func compile(_ package: URL, to place: URL) async throws {
    let made: URL
    do {
      made = try await MLModel.compileModel(at: package)
    } catch {
      throw AnemoneError.coreML("Core ML cannot compile \(package.lastPathComponent)", error)
    }
    defer { try? FileManager.default.removeItem(at: made) }
    do {
      try FileManager.default.createDirectory(at: build, withIntermediateDirectories: true)
      forgetOtherBuilds()
      // First beside its place, then by a rename: whoever finds it there finds all of it.
      let near = build.appendingPathComponent(UUID().uuidString + ".part")
      defer { try? FileManager.default.removeItem(at: near) }
      try FileManager.default.moveItem(at: made, to: near)
      if !FileManager.default.fileExists(atPath: place.path) {
        try FileManager.default.moveItem(at: near, to: place)
      }
    } catch {
      if FileManager.default.fileExists(atPath: place.path) { return }  // somebody else was faster
      throw AnemoneError.damaged(
        "the compiled package cannot be kept in \(build.path): \(error.localizedDescription)")
    }
  }

  private func forgetOtherBuilds() {
    let all = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
    for other in all where other.lastPathComponent != build.lastPathComponent {
      try? FileManager.default.removeItem(at: other)
    }
  }

  /// FNV-1a, 64 bits: the same at every start, unlike Swift's own.
  private static func hash(_ text: String) -> String {
    var h: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in text.utf8 { h = (h ^ UInt64(byte)) &* 0x100_0000_01b3 }
    let hex = String(h, radix: 16)
    return String(repeating: "0", count: 16 - hex.count) + hex
  }
}
