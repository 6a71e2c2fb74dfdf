// Runs a bundle of `anemone convert` with Core ML, from the command line:
//     swift run runbundle BUNDLE "Once upon a time" [TOKENS]      goes on with the text
//     swift run runbundle BUNDLE --chat "What is a tide pool?"    answers, by the model's chat template
//     swift run runbundle BUNDLE --ids 0 1439 821 262 796         ids in, ids out
import AnemoneKit
import Foundation

@main
struct RunBundle {
  static func main() async {
    do {
      try await run(Array(CommandLine.arguments.dropFirst()))
    } catch {
      say("error: \(error)\n")
      exit(2)
    }
  }

  static func run(_ arguments: [String]) async throws {
    guard arguments.count >= 2 else {
      throw AnemoneError.unsupported("usage: runbundle BUNDLE [--chat] TEXT [TOKENS] | runbundle BUNDLE --ids ID …")
    }
    let model = try await AnemoneModel.load(contentsOf: URL(fileURLWithPath: arguments[0])) { progress in
      say("\(progress.phase.rawValue) \(progress.package) \(progress.function)\n")
    }
    let session = model.makeSession()
    let rest = Array(arguments.dropFirst(2))
    switch arguments[1] {
    case "--ids":
      let answer = session.generate(tokens: rest.compactMap { Int32($0) }, options: .greedy(maxNewTokens: 40))
      for try await piece in answer { if let id = piece.id { show("\(id) ") } }
    case "--chat":
      let answer = session.respond(to: [.user(rest.joined(separator: " "))])
      for try await piece in answer { show(piece.text) }
    default:
      let tokens = rest.first.flatMap { Int($0) } ?? 100
      let answer = session.generate(arguments[1], options: .greedy(maxNewTokens: tokens))
      for try await piece in answer { show(piece.text) }
      say("\n[\(answer.summary.newTokens) tokens, ended by: \(answer.summary.stop.rawValue)]")
    }
    show("\n")
  }

  static func show(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
  static func say(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
