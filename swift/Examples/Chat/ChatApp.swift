// A chat with a bundle, in one file. On a Mac:
//     swift run Chat
// For an iPhone, make an app in Xcode, add the package AnemoneKit, and take this file in the place of its own.
import AnemoneKit
import SwiftUI

#if os(macOS)
  import AppKit
#endif

/// A conversation with one model: what the views show, and what they can ask for.
@MainActor
final class Conversation: ObservableObject {
  @Published var messages: [Message] = []
  @Published var status = "Open a bundle: a folder that `anemone convert` made."
  @Published var loading: Double?  // how much is done
  @Published var isAnswering = false
  private var session: Session?
  private var work: Task<Void, Never>?

  var isReady: Bool { session != nil && !isAnswering }

  func open(_ folder: URL) {
    work?.cancel()
    (session, messages, loading) = (nil, [], 0)
    work = Task {
      let isScoped = folder.startAccessingSecurityScopedResource()
      defer { if isScoped { folder.stopAccessingSecurityScopedResource() } }
      do {
        // The first time, Core ML compiles for this device: that can take minutes.
        let model = try await AnemoneModel.load(contentsOf: folder) { progress in
          Task { @MainActor in self.show(progress) }
        }
        try await model.prewarm { progress in Task { @MainActor in self.show(progress) } }
        session = model.makeSession()
        status = "\(model.name), \(model.context) tokens"
      } catch {
        status = "\(error)"
      }
      loading = nil
    }
  }

  private func show(_ progress: LoadProgress) {
    guard session == nil else { return }
    loading = progress.fraction
    status = "\(progress.phase.rawValue) \(progress.package)"
  }

  func send(_ text: String) {
    guard let session, isReady, !text.isEmpty else { return }
    messages.append(.user(text))
    let asked = messages
    messages.append(.assistant(""))
    isAnswering = true
    work = Task {
      var options = GenerateOptions()
      (options.maxNewTokens, options.temperature, options.topP) = (400, 0.7, 0.95)
      options.seed = .random(in: 0...UInt64.max)
      // All of the conversation: the session computes only what is new.
      let answer = session.respond(to: asked, options: options)
      do {
        for try await piece in answer { messages[messages.count - 1].content += piece.text }
        status = "\(answer.summary.newTokens) tokens, \(Int(answer.summary.tokensPerSecond)) a second"
      } catch is CancellationError {
        status = "stopped"
      } catch {
        status = "\(error)"
      }
      isAnswering = false
    }
  }

  func stop() { work?.cancel() }
}

struct ChatView: View {
  @StateObject private var chat = Conversation()
  @State private var text = ""
  @State private var isChoosing = false

  var body: some View {
    VStack(alignment: .leading) {
      ScrollViewReader { place in
        ScrollView {
          ForEach(Array(chat.messages.enumerated()), id: \.offset) { index, message in
            Bubble(message: message).id(index)
          }
        }
        .onChange(of: chat.messages) { place.scrollTo(chat.messages.count - 1, anchor: .bottom) }
      }
      if let loading = chat.loading { ProgressView(value: loading) }
      Text(chat.status).font(.caption).foregroundStyle(.secondary)
      HStack {
        Button("Open…") { isChoosing = true }
        TextField("Message", text: $text).textFieldStyle(.roundedBorder).onSubmit(send)
        if chat.isAnswering {
          Button("Stop", action: chat.stop)
        } else {
          Button("Send", action: send).disabled(!chat.isReady)
        }
      }
    }
    .padding()
    .fileImporter(isPresented: $isChoosing, allowedContentTypes: [.folder]) { result in
      if case .success(let folder) = result { chat.open(folder) }
    }
  }

  private func send() {
    chat.send(text)
    text = ""
  }
}

struct Bubble: View {
  let message: Message

  var body: some View {
    let isUser = message.role == "user"
    Text(message.content.isEmpty ? "…" : message.content)
      .textSelection(.enabled)
      .padding(8)
      .background(isUser ? Color.accentColor.opacity(0.2) : Color.gray.opacity(0.15))
      .clipShape(RoundedRectangle(cornerRadius: 8))
      .frame(maxWidth: .infinity, alignment: isUser ? .trailing : .leading)
  }
}

@main
struct ChatApp: App {
  init() {
    #if os(macOS)
      // Started from a terminal, without a bundle of its own: be an app with windows all the same.
      NSApplication.shared.setActivationPolicy(.regular)
      NSApplication.shared.activate()
    #endif
  }
  var body: some Scene { WindowGroup("Chat") { ChatView() } }
}
