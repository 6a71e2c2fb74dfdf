import CoreML
import Foundation

/// What Core ML may use, beside the CPU.
public enum ComputeUnits: Sendable {
  case neuralEngine, gpu, cpuOnly, all

  var coreML: MLComputeUnits {
    switch self {
    case .neuralEngine: return .cpuAndNeuralEngine
    case .gpu: return .cpuAndGPU
    case .cpuOnly: return .cpuOnly
    case .all: return .all
    }
  }
}

public struct LoadOptions: Sendable {
  public var computeUnits = ComputeUnits.neuralEngine
  /// Where compiled packages are kept; nil: a folder in the app's caches.
  public var cacheFolder: URL?

  public init(computeUnits: ComputeUnits = .neuralEngine, cacheFolder: URL? = nil) {
    self.computeUnits = computeUnits
    self.cacheFolder = cacheFolder
  }
}

/// What is being done before a model can run. The first time takes long: seconds to many minutes.
public struct LoadProgress: Sendable, Equatable {
  public enum Phase: String, Sendable { case compiling, loading, warmingUp = "warming up" }
  public let phase: Phase
  public let package: String
  public let function: String  // "" while compiling
  public let step: Int  // this one, from 0 on, of …
  public let steps: Int
  public var fraction: Double { Double(step) / Double(steps) }
}

public typealias LoadHandler = @Sendable (LoadProgress) -> Void

/// A bundle, opened: packages, embedding table, tokenizer. Sessions share it, from any thread.
///
///     let model = try await AnemoneModel.load(contentsOf: folder) { print($0.phase, $0.package) }
///     let session = model.makeSession()
///     for try await piece in session.generate("Once upon a time") { print(piece.text, terminator: "") }
public final class AnemoneModel: @unchecked Sendable {
  /// The model's name, where its checkpoint had one.
  public let name: String
  public let folder: URL
  /// The tokenizer that came with the model; nil where none did.
  public let tokenizer: Tokenizer?
  /// Most positions of a session.
  public var context: Int { tiers[tiers.count - 1] }
  public var vocabulary: Int { info.model.vocab }
  /// False: the bundle gives only the best token, so nothing can be sampled.
  public var givesLogits: Bool { !info.givesOnlyBest }

  let info: BundleInfo
  let embedding: EmbeddingRows
  let tiers: [Int]
  private let options: LoadOptions
  private let compiled: CompiledPackages
  private let lock = NSRecursiveLock()
  private var functions: [FunctionPlace: LoadedFunction] = [:]
  private var sharing: [SharePlace: Bool] = [:]

  private struct FunctionPlace: Hashable { let package, function: String }
  private struct SharePlace: Hashable { let package, from, to: String }

  /// Opens the bundle: reads its description, the embedding table and the tokenizer. Core ML is not asked yet.
  init(_ folder: URL, _ options: LoadOptions) throws {
    self.folder = folder
    self.options = options
    info = try BundleInfo.read(folder)
    tiers = info.tiers
    name = info.source?.name ?? folder.lastPathComponent
    embedding = try EmbeddingRows(info, in: folder)
    tokenizer = try info.tokens.tokenizer.map { try Tokenizer(file: folder.appendingPathComponent($0)) }
    compiled = CompiledPackages(options.cacheFolder)
  }

  /// Opens a bundle, compiles what was not compiled before, and loads the functions of its shortest context. Those of
  /// longer ones are loaded when a text reaches them, or by `prewarm`.
  public static func load(
    contentsOf folder: URL, options: LoadOptions = LoadOptions(), progress: LoadHandler? = nil
  ) async throws -> AnemoneModel {
    let model = try AnemoneModel(folder, options)
    try await model.loadAll(model.loadPlan(all: false), warm: false, progress)
    return model
  }

  /// Loads everything and runs each function twice on zeros, so that the first answer comes as fast as the others.
  public func prewarm(progress: LoadHandler? = nil) async throws {
    try await loadAll(loadPlan(all: true), warm: true, progress)
  }

  public func makeSession() -> Session { Session(self) }

  // MARK: - Functions

  private typealias Step = (stage: Int, function: BundleInfo.Function)

  private func loadPlan(all: Bool) -> [Step] {
    info.stages.indices.flatMap { stage in
      info.stages[stage].functions.filter { all || $0.context == nil || $0.context == tiers[0] }
        .map { (stage, $0) }
    }
  }

  private func loadAll(_ plan: [Step], warm: Bool, _ progress: LoadHandler?) async throws {
    var packages: [String] = []
    for step in plan where !packages.contains(info.stages[step.stage].package) {
      packages.append(info.stages[step.stage].package)
    }
    packages = try packages.filter { !isCompiled(try place(of: $0)) }
    let steps = packages.count + plan.count * (warm ? 2 : 1)
    var done = 0
    func tell(_ phase: LoadProgress.Phase, _ package: String, _ function: String) throws {
      try Task.checkCancellation()
      progress?(LoadProgress(phase: phase, package: package, function: function, step: done, steps: steps))
      done += 1
    }
    for package in packages {  // one by one: all at once would need the memory of all
      try tell(.compiling, package, "")
      try await compiled.compile(folder.appendingPathComponent(package), to: try place(of: package))
    }
    for step in plan {
      let package = info.stages[step.stage].package
      try tell(.loading, package, step.function.name)
      if known(step.stage, step.function) == nil {
        let url = try place(of: package)
        let loaded: MLModel
        do {
          loaded = try await MLModel.load(contentsOf: url, configuration: configuration(step.stage, step.function))
        } catch {
          throw AnemoneError.coreML("Core ML cannot load \(package), function '\(step.function.name)'", error)
        }
        try keep(step.stage, step.function, loaded)
      }
      if warm {
        try tell(.warmingUp, package, step.function.name)
        try function(step.stage, step.function).prewarm()
      }
    }
  }

  private func place(of package: String) throws -> URL { try compiled.place(of: package, in: folder, info) }
  private func isCompiled(_ url: URL) -> Bool { FileManager.default.fileExists(atPath: url.path) }

  private func configuration(_ stage: Int, _ function: BundleInfo.Function) -> MLModelConfiguration {
    let configuration = MLModelConfiguration()
    configuration.computeUnits = options.computeUnits.coreML
    configuration.modelDisplayName = info.stages[stage].package
    // A package with one function is no multifunction package: it wants no name.
    if info.functionCounts[info.stages[stage].package, default: 1] > 1 {
      configuration.functionName = function.name
    }
    return configuration
  }

  private func known(_ stage: Int, _ function: BundleInfo.Function) -> LoadedFunction? {
    lock.lock()
    defer { lock.unlock() }
    return functions[FunctionPlace(package: info.stages[stage].package, function: function.name)]
  }

  @discardableResult
  private func keep(_ stage: Int, _ function: BundleInfo.Function, _ model: MLModel) throws -> LoadedFunction {
    let package = info.stages[stage].package
    let loaded = try LoadedFunction(function, package, model)
    lock.lock()
    defer { lock.unlock() }
    functions[FunctionPlace(package: package, function: function.name)] = loaded
    return loaded
  }

  /// A function, loaded now where it is first needed.
  func function(_ stage: Int, _ function: BundleInfo.Function) throws -> LoadedFunction {
    lock.lock()
    defer { lock.unlock() }
    if let loaded = known(stage, function) { return loaded }
    let package = info.stages[stage].package
    do {
      let model = try MLModel(
        contentsOf: try place(of: package), configuration: configuration(stage, function))
      return try keep(stage, function, model)
    } catch {
      throw AnemoneError.coreML("Core ML cannot load \(package), function '\(function.name)'", error)
    }
  }

  /// The function of a stage for so many columns over that context.
  func function(_ stage: Int, width: Int, context: Int) throws -> LoadedFunction {
    let fits = info.stages[stage].functions.first {
      $0.least <= width && width <= $0.most && ($0.context == nil || $0.context == context)
    }
    guard let fits else {
      throw AnemoneError.damaged("\(info.stages[stage].package) has no function for \(width) tokens")
    }
    return try function(stage, fits)
  }

  /// Whether a state that one function of a package made can be given to another one. Tried once.
  func sharesStates(from: LoadedFunction, to: LoadedFunction) -> Bool {
    lock.lock()
    defer { lock.unlock() }
    let place = SharePlace(package: from.package, from: from.info.name, to: to.info.name)
    if let answer = sharing[place] { return answer }
    let answer = to.sharesStates(of: from)
    sharing[place] = answer
    return answer
  }
}
