// swift-tools-version: 6.0
// AnemoneKit: runs bundles of `anemone convert` with Core ML. docs/swift.md says how an app uses it.
//
// The C++ core (tokenizer, chat template, sampling) is the module CAnemone. On Apple's systems it is an XCFramework
// that build_xcframework.sh makes. On Linux, where the package is only tested, it is the library anemone_c of our CMake
// build, and a stand-in takes the place of Core ML; tests/swift/run.sh passes the folders.
import PackageDescription

#if os(Linux)
  let core: [Target] = [
    .systemLibrary(name: "CAnemone"),
    .systemLibrary(name: "StandInEngine", path: "Tests/StandIn/Engine"),
    .target(name: "CoreML", dependencies: ["StandInEngine"], path: "Tests/StandIn/CoreML"),
  ]
  let frameworks: [Target.Dependency] = ["CAnemone", "CoreML"]
  let testHelp: [Target.Dependency] = ["AnemoneKit", "CoreML"]
  let libraries: [LinkerSetting] = []
  let examples: [Target] = []
#else
  let core: [Target] = [.binaryTarget(name: "CAnemone", path: "Frameworks/CAnemone.xcframework")]
  let frameworks: [Target.Dependency] = ["CAnemone"]
  let testHelp: [Target.Dependency] = ["AnemoneKit"]
  let libraries: [LinkerSetting] = [
    .linkedLibrary("c++"), .linkedLibrary("z"),
    .linkedFramework("CoreML"), .linkedFramework("CoreVideo"), .linkedFramework("Foundation"),
  ]
  let examples: [Target] = [
    .executableTarget(name: "Chat", dependencies: ["AnemoneKit"], path: "Examples/Chat")
  ]
#endif

let package = Package(
  name: "AnemoneKit",
  platforms: [.macOS(.v15), .iOS(.v18)],
  products: [.library(name: "AnemoneKit", targets: ["AnemoneKit"])],
  targets: core + examples + [
    .target(name: "AnemoneKit", dependencies: frameworks, linkerSettings: libraries),
    .executableTarget(name: "runbundle", dependencies: ["AnemoneKit"]),
    .testTarget(name: "AnemoneKitTests", dependencies: testHelp),
  ],
  swiftLanguageModes: [.v5]
)
